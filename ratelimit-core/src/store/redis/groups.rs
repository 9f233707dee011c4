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
use super::shared::Shared;
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
        policies_in_windows(group, || self.shared.encoder.server_time())
    }

    /// The same, but waits until a first connection has shown the server's time, or cannot be made.
    pub(super) async fn policies(&self, group: &[Check<'_>], deadline: &mut Deadline) -> Vec<Policy> {
        if !self.shared.encoder.knows_server_time()
            && group.iter().any(|check| check.policy().calendar().is_some())
        {
            let _ = reply_by(deadline, self.shared.link.connected()).await;
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
        let denial = self.shared.denials.get(group)?;
        self.shared.link.observer.denied_by_cache();
        Some(denial)
    }

    fn take_unused(&self, group: &[Check<'_>]) -> Option<GroupOutcome> {
        let (outcome, wanted) = self.shared.attachments.leases.take(group, Operation::Check)?;
        for index in wanted {
            self.prefetch(&group[index]);
        }
        Some(outcome)
    }

    /// Fetches more units of a limit in the background.
    #[cold]
    fn prefetch(&self, check: &Check<'_>) {
        let group = slice::from_ref(check);
        let attachment = self.shared.attachments.of_group(group, Operation::Check);
        self.lanes.submit_unawaited(self.request(group, Operation::Check), attachment);
    }

    /// Unused units of leases count as remaining.
    pub(super) async fn peek(
        &self,
        group: &[Check<'_>],
        deadline: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        let leases = &self.shared.attachments.leases;
        if let Some((outcome, _)) = leases.take(group, Operation::Peek) {
            return Ok(outcome);
        }
        let outcome = self.call(group, Operation::Peek, deadline).await?;
        Ok(leases.with_unused(group, outcome, Operation::Peek))
    }

    /// Afterwards, checks wait for longer than the cached denials say.
    pub(super) async fn take_turn(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        deadline: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        let _guard = self.shared.denials.invalidate_on_drop(group);
        self.call(group, operation, deadline).await
    }

    /// A charge, or a look. Unused units of leases that it may need are given back before. Other unused units
    /// count as remaining. Caches a denial.
    pub(super) async fn charge(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        deadline: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        let Shared { denials, attachments, .. } = &*self.shared;
        let lookup = match operation {
            Operation::Check | Operation::Judge => denials.begin_lookup(group),
            _ => None,
        };
        self.make_way(group, operation);
        let outcome = self.call(group, operation, deadline).await?;
        let outcome = attachments.leases.with_unused(group, outcome, operation);
        denials.record(group, &outcome, lookup);
        Ok(outcome)
    }

    /// Sends a group, and waits for the reply.
    async fn call(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        mut deadline: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        if self.is_split(group) {
            // In a box, because split groups are rare and their future is large.
            return Box::pin(self.decide_each_caller(group, operation, deadline)).await;
        }
        let pending = self.submit(group, operation, &mut deadline);
        pending.reply(&mut deadline).await?.claim(group)
    }

    /// Gives back unused units of the limits, as far as the next request may need them, before that request.
    fn make_way(&self, group: &[Check<'_>], operation: Operation) {
        for command in self.shared.attachments.leases.make_way(group, operation, &self.shared.encoder) {
            drop(self.lanes.send(command));
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
            let guard = self.shared.denials.invalidate_on_drop(check);
            let pending = self.submit(check, Operation::Overdraw, &mut deadline);
            let reply = pending.reply(&mut deadline).await;
            drop(guard);
            reply?.overdrawn(&check[0])?;
        }
        Ok(unknown_outcome(group, self.shared.denials.now()))
    }

    pub(super) fn set_instances(&self, instances: NonZeroU32) {
        self.shared.attachments.leases.set_instances(instances);
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
