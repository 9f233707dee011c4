//! Decisions about groups, by this process if it can and otherwise by the server; refunds and resets.

mod refund;
mod requests;
mod split;
mod turn;

use std::num::NonZeroU32;
use std::slice;

use smallvec::SmallVec;

pub(super) use self::requests::Groups;
use self::requests::{split_by_caller, unknown_outcome, wait_for_all};
use super::command::{Command, GuardedCommand};
use super::lanes::PendingReply;
use super::timeouts::reply_by;
use crate::algorithm::Operation;
use crate::check::{Check, policies_in_windows};
use crate::error::StoreError;
use crate::outcome::GroupOutcome;
use crate::policy::Policy;
use crate::reservation::{Charge, Reservation};
use crate::store::Deadline;

impl Groups {
    /// The policies of a group, each in the window that contains the server's time. From here on each window
    /// is a limit of its own.
    pub(super) fn policies_now(&self, group: &[Check<'_>]) -> Vec<Policy> {
        policies_in_windows(group, || self.encoder.server_time())
    }

    /// The same, but waits until a first connection has shown the server's time, or cannot be made.
    pub(super) async fn policies(&self, group: &[Check<'_>], deadline: &mut Deadline) -> Vec<Policy> {
        if !self.encoder.knows_server_time() && group.iter().any(|check| check.policy().calendar().is_some())
        {
            let _ = reply_by(deadline, self.client.link.connected()).await;
        }
        self.policies_now(group)
    }

    /// Decides without the server: a check by unused units of leases, if there are enough for all limits, and
    /// otherwise by a cached denial.
    pub(super) fn try_decide(&self, group: &[Check<'_>], operation: Operation) -> Option<GroupOutcome> {
        if operation == Operation::Check
            && let Some(outcome) = self.take_unused(group)
        {
            return Some(outcome);
        }
        let denial = self.denials.get(group)?;
        self.client.link.observer.denied_by_cache();
        Some(denial)
    }

    fn take_unused(&self, group: &[Check<'_>]) -> Option<GroupOutcome> {
        let (outcome, wanted) = self.attachments.leases.take(group, Operation::Check)?;
        for index in wanted {
            self.prefetch(&group[index]);
        }
        Some(outcome)
    }

    /// Fetches more units of a limit in the background.
    #[cold]
    fn prefetch(&self, check: &Check<'_>) {
        let group = slice::from_ref(check);
        let attachment = self.attachments.of_group(group, Operation::Check);
        self.client.lanes.submit_unawaited(self.request(group, Operation::Check), attachment);
    }

    /// Decides about a group as a whole by the server. Before a charge or a look, unused units of leases that
    /// it may need are given back. Other unused units count as remaining. Caches a denial.
    pub(super) async fn decide(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        mut deadline: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        let operation = match operation {
            Operation::Wait { .. } if !matches!(group, [check] if check.has_turns()) => Operation::Check,
            operation => operation,
        };
        if operation == Operation::Peek
            && let Some((outcome, _)) = self.attachments.leases.take(group, operation)
        {
            return Ok(outcome);
        }
        let lookup = match operation {
            Operation::Check | Operation::Judge => self.denials.begin_lookup(group),
            _ => None,
        };
        let is_turn = matches!(operation, Operation::Wait { .. });
        // After a turn, checks wait for longer than the cached denials say.
        let _guard = is_turn.then(|| self.denials.invalidate_on_drop(group));
        let needs_units = matches!(operation, Operation::Check | Operation::Judge | Operation::UpTo);
        if needs_units {
            self.make_way(group, operation);
        }
        let outcome = if self.is_split(group) {
            // In a box, because split groups are rare and their future is large.
            Box::pin(self.decide_each_caller(group, operation, deadline)).await?
        } else {
            let pending = self.submit(group, operation, &mut deadline);
            pending.reply(&mut deadline).await?.claim(group)?
        };
        if is_turn {
            return Ok(outcome);
        }
        let outcome = self.attachments.leases.with_unused(group, outcome, operation);
        if needs_units {
            self.denials.record(group, &outcome, lookup);
        }
        Ok(outcome)
    }

    /// Gives back unused units of the limits, as far as the next request may need them, before that request.
    fn make_way(&self, group: &[Check<'_>], operation: Operation) {
        for command in self.attachments.leases.make_way(group, operation, &self.encoder) {
            drop(self.client.lanes.send(command));
        }
    }

    /// Charges each limit although it may not fit, and ends the caller's denials. Unused units of a lease pay
    /// if there are enough. The outcome says nothing about what remains.
    pub(super) async fn overdraw(
        &self,
        group: &[Check<'_>],
        mut deadline: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        for check in group.chunks(1) {
            if self.take_unused(check).is_some() {
                continue;
            }
            // The reply ends leases that are in flight, whose units could be used beside the debt.
            self.make_way(check, Operation::Overdraw);
            let guard = self.denials.invalidate_on_drop(check);
            let pending = self.submit(check, Operation::Overdraw, &mut deadline);
            let reply = pending.reply(&mut deadline).await;
            drop(guard);
            reply?.overdrawn(&check[0])?;
        }
        Ok(unknown_outcome(group, self.denials.now()))
    }

    pub(super) fn set_instances(&self, instances: NonZeroU32) {
        self.attachments.leases.set_instances(instances);
    }

    pub(super) async fn refund_each_caller(
        &self,
        reservation: &Reservation<'_>,
        mut deadline: Deadline,
    ) -> Result<(), StoreError> {
        let policies: Vec<Option<Policy>> = reservation.charges().map(Charge::policy_in_window).collect();
        let charges = reservation.charges().zip(&policies).map(|(charge, policy)| match policy {
            Some(policy) => charge.with_check(charge.check().with_policy(policy)),
            None => charge.clone(),
        });
        // Units that came from a lease may go back to it.
        let left = charges.filter(|charge| !self.attachments.leases.put_back(charge));
        wait_for_all(self.send_refunds(left), &mut deadline).await
    }

    pub(super) async fn reset_each_caller(
        &self,
        group: &[Check<'_>],
        mut deadline: Deadline,
    ) -> Result<(), StoreError> {
        let key_format = &self.encoder.key_format;
        let sent: SmallVec<[PendingReply; 2]> = split_by_caller(group)
            .into_iter()
            .map(|caller| {
                let keys: SmallVec<[_; 2]> =
                    caller.checks.iter().map(|check| key_format.key(check)).collect();
                let guard = (
                    self.attachments.reset_on_drop(&caller.checks, key_format),
                    self.denials.invalidate_on_drop(&caller.checks),
                );
                let command = Command::delete(&keys);
                self.client.lanes.send(GuardedCommand { command, guard: Box::new(guard) })
            })
            .collect();
        wait_for_all(sent, &mut deadline).await
    }
}
