//! Decisions about groups, by this process if it can and otherwise by the server; refunds and resets.

mod refund;
mod requests;
mod split;
mod turn;

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::slice;

use smallvec::SmallVec;

pub(super) use self::requests::Groups;
use self::requests::{split_by_caller, wait_for_all};
use super::command::{Command, GuardedCommand};
use super::denial_cache::{InvalidateOnDrop, Lookup};
use super::lanes::PendingReply;
use super::shared::Shared;
use super::timeouts::reply_by;
use crate::algorithm::Operation;
use crate::check::{Check, in_windows};
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::outcome::GroupOutcome;
use crate::process::OfProcess;
use crate::reservation::Reservation;
use crate::store::Deadline;

/// A request that is queued, until its outcome.
pub(crate) struct Sent {
    pending: PendingReply,
    deadline: Deadline,
    /// The instant by which its windows were chosen.
    windows_at: Option<Timestamp>,
    notes: Notes,
}

/// What is noted before a request for what follows from its outcome.
pub(super) struct Notes {
    operation: Operation,
    lookup: Option<Lookup>,
    /// After a turn or a settlement, checks wait for longer than the cached denials say.
    _guard: Option<Box<OfProcess<InvalidateOnDrop>>>,
}

impl Groups {
    /// A group in the windows that contain the server's time. Waits until a first connection has shown that
    /// time, or cannot be made.
    pub(super) async fn in_windows<'g, 'a>(
        &self,
        group: &'g [Check<'a>],
        deadline: &mut Deadline,
    ) -> Cow<'g, [Check<'a>]> {
        if !self.knows_windows(group) {
            let _ = reply_by(deadline, self.shared.link.connected()).await;
        }
        in_windows(group, self.windows_at(group))
    }

    pub(super) fn knows_windows(&self, group: &[Check<'_>]) -> bool {
        self.shared.encoder.knows_server_time()
            || group.iter().all(|check| check.policy().calendar().is_none() || check.window.is_some())
    }

    /// The server's time, if some limits of the group have windows of a calendar, which it chooses.
    pub(super) fn windows_at(&self, group: &[Check<'_>]) -> Option<Timestamp> {
        let has_calendar = group.iter().any(|check| check.policy().calendar().is_some());
        has_calendar.then(|| Timestamp::from_micros(self.shared.encoder.server_time()))
    }

    /// Whether one call decides about the group; see
    /// [`end_by_several_calls`](Self::end_by_several_calls).
    pub(super) fn takes_one_call(&self, group: &[Check<'_>], operation: Operation) -> bool {
        if operation == Operation::Overdraw { group.len() == 1 } else { !self.is_split(group) }
    }

    /// Decides without the server: by unused units of leases, if there are enough for all limits, and
    /// otherwise by a cached denial.
    pub(super) fn known(&self, group: &[Check<'_>], operation: Operation) -> Option<GroupOutcome> {
        if matches!(operation, Operation::Check | Operation::Peek | Operation::Overdraw)
            && let Some((outcome, wanted)) = self.shared.attachments.leases.take(group, operation)
        {
            for index in wanted {
                self.prefetch(&group[index]);
            }
            return Some(outcome);
        }
        if !matches!(operation, Operation::Check | Operation::Judge) {
            return None;
        }
        let denial = self.shared.denials.get(group)?;
        self.shared.link.observer.denied_by_cache();
        Some(denial)
    }

    /// Fetches more units of a limit in the background.
    #[cold]
    fn prefetch(&self, check: &Check<'_>) {
        let group = slice::from_ref(check);
        let attachment = self.shared.attachments.of_group(group, Operation::Check);
        self.lanes.submit_unawaited(self.request(group, Operation::Check), attachment);
    }

    /// Begins to decide by the server: queues a request, whose outcome is that of [`end`](Self::end).
    pub(super) fn begin(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        mut deadline: Deadline,
        by_worker: bool,
    ) -> Sent {
        let windows_at = self.windows_at(group);
        let group = &*in_windows(group, windows_at);
        let notes = self.note(group, operation);
        let pending = self.submit(group, operation, &mut deadline, by_worker);
        Sent { pending, deadline, windows_at, notes }
    }

    /// Waits for the reply.
    pub(super) async fn end(&self, group: &[Check<'_>], sent: &mut Sent) -> Result<GroupOutcome, StoreError> {
        let group = &*in_windows(group, sent.windows_at);
        let outcome = sent.pending.outcome(group, &mut sent.deadline).await?;
        Ok(self.conclude(group, outcome, &mut sent.notes))
    }

    /// Notes what follows from the outcome of a request, before it is sent. Unused units of leases that it
    /// may need are given back first.
    pub(super) fn note(&self, group: &[Check<'_>], operation: Operation) -> Notes {
        let Shared { denials, attachments, encoder, .. } = &*self.shared;
        let lookup = match operation {
            Operation::Check | Operation::Judge => denials.begin_lookup(group),
            _ => None,
        };
        let guard = operation.overdraws().then(|| Box::new(denials.invalidate_on_drop(group)));
        if operation != Operation::Peek {
            for command in attachments.leases.make_way(group, operation, encoder) {
                drop(self.lanes.send(command));
            }
        }
        Notes { operation, lookup, _guard: guard }
    }

    /// Unused units of leases count as remaining. Caches a denial.
    pub(super) fn conclude(
        &self,
        group: &[Check<'_>],
        outcome: GroupOutcome,
        notes: &mut Notes,
    ) -> GroupOutcome {
        let Shared { denials, attachments, .. } = &*self.shared;
        let outcome = attachments.leases.with_unused(group, outcome, notes.operation);
        if notes.operation != Operation::Peek {
            denials.record(group, &outcome, notes.lookup.take());
        }
        outcome
    }

    pub(super) fn set_instances(&self, instances: NonZeroU32) {
        self.shared.attachments.leases.set_instances(instances);
    }

    pub(super) async fn refund_each_caller(
        &self,
        reservation: &Reservation<'_>,
        mut deadline: Deadline,
    ) -> Result<(), StoreError> {
        let charges = reservation.charges().map(|charge| charge.in_window(0));
        // Units that came from a lease may go back to it.
        let left = charges.filter(|charge| !self.shared.attachments.leases.put_back(charge));
        wait_for_all(self.send_refunds(left), &mut deadline).await
    }

    pub(super) async fn reset_each_caller(
        &self,
        group: &[Check<'_>],
        mut deadline: Deadline,
    ) -> Result<(), StoreError> {
        let key_format = &self.shared.encoder.key_format;
        let sent: SmallVec<[PendingReply; 2]> = split_by_caller(group)
            .into_iter()
            .map(|caller| {
                let keys: SmallVec<[_; 2]> =
                    caller.checks.iter().map(|check| key_format.key(check)).collect();
                let guard = (
                    self.shared.attachments.reset_on_drop(&caller.checks, key_format),
                    self.shared.denials.invalidate_on_drop(&caller.checks),
                );
                let command = Command::delete(&keys);
                self.lanes.send(GuardedCommand { command, guard: Box::new(guard) })
            })
            .collect();
        wait_for_all(sent, &mut deadline).await
    }
}
