//! Asks the server about the groups that this process does not decide by itself, and sends refunds and
//! resets.

mod split;
mod turn;

use std::num::NonZeroU32;
use std::slice;
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use self::split::split_by_caller;
use self::turn::UnclaimedTurn;
use super::client::Client;
use super::command::{Command, GuardedCommand, Keys, ScriptCall};
use super::denial_cache::DenialCache;
use super::lanes::PendingReply;
use super::protocol::{Encoder, LimitArg, RefundArgs, Request};
use super::riders::{Rider, Riders};
use super::script;
use crate::algorithm::Operation;
use crate::check::Check;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::observe::log::LogLimit;
use crate::outcome::{GroupOutcome, Outcome};
use crate::reservation::{Charge, Reservation};
use crate::store::Deadline;

/// Reports limits about which the server gave no answer: not violated, and nothing known to remain.
pub(super) fn unknown_outcome(checks: &[Check<'_>], at: Timestamp) -> GroupOutcome {
    GroupOutcome::new(at, checks.iter().map(Outcome::unknown))
}

/// What a store asks its server, and what it knows without.
pub(super) struct Groups {
    pub(super) client: Client,
    encoder: Arc<Encoder>,
    pub(super) denials: Arc<DenialCache>,
    pub(super) riders: Riders,
    /// For refunds of denied groups that fail.
    refund_log: LogLimit,
}

impl Groups {
    pub(super) fn new(
        client: Client,
        encoder: Arc<Encoder>,
        denials: Arc<DenialCache>,
        riders: Riders,
    ) -> Self {
        Self { client, encoder, denials, riders, refund_log: LogLimit::default() }
    }

    /// Decides without the server: by held units, if there are enough for all limits, or by a cached denial.
    pub(super) fn try_decide(&self, group: &[Check<'_>]) -> Option<GroupOutcome> {
        if let Some(outcome) = self.take_held(group) {
            return Some(outcome);
        }
        let denial = self.denials.get(group)?;
        self.client.link.observer.denied_by_cache();
        Some(denial)
    }

    fn take_held(&self, group: &[Check<'_>]) -> Option<GroupOutcome> {
        let (outcome, wanted) = self.riders.held.take(group, Operation::Check)?;
        for index in wanted {
            self.prefetch(&group[index]);
        }
        Some(outcome)
    }

    /// Fetches more units of a limit in the background.
    #[cold]
    fn prefetch(&self, check: &Check<'_>) {
        let group = slice::from_ref(check);
        let rider = self.riders.rider(group, Operation::Check);
        let deadline = Deadline::after(self.client.link.deadline());
        self.client.lanes.submit_unawaited(self.request(group, Operation::Check), rider, deadline);
    }

    /// Has the server decide about a group as a whole. Held units that are in the way of a charge go back
    /// before, and what is held counts as remaining. Caches a denial.
    pub(super) async fn decide(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        deadline: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        let operation = match operation {
            Operation::Wait { .. } if !matches!(group, [check] if check.has_turns()) => Operation::Check,
            operation => operation,
        };
        if operation == Operation::Peek
            && let Some((outcome, _)) = self.riders.held.take(group, operation)
        {
            return Ok(outcome);
        }
        let lookup = match operation {
            Operation::Check => self.denials.begin_lookup(group),
            _ => None,
        };
        let is_turn = matches!(operation, Operation::Wait { .. });
        // Behind a turn, checks wait for longer than those that were denied so far.
        let _guard = is_turn.then(|| self.denials.invalidate_on_drop(group));
        let is_charge = operation.charges() && !is_turn;
        if is_charge {
            self.make_way(group, operation);
        }
        let outcome = if self.is_split(group) {
            // Boxed, because it is rare and its future is large.
            Box::pin(self.decide_each_caller(group, operation, deadline)).await?
        } else {
            self.submit(group, operation, deadline).reply().await?.into_outcome(group)?
        };
        if !is_charge && operation != Operation::Peek {
            return Ok(outcome);
        }
        let outcome = self.riders.held.with_held(group, outcome, operation);
        if is_charge {
            self.denials.record(group, &outcome, lookup);
        }
        Ok(outcome)
    }

    /// Sends what is held of the limits back, as far as it is in the way, before the request that follows.
    fn make_way(&self, group: &[Check<'_>], operation: Operation) {
        let is_cluster = self.client.link.is_cluster();
        for command in self.riders.held.make_way(group, operation, &self.encoder, is_cluster) {
            drop(self.client.lanes.send(command, self.client.lanes.deadline()));
        }
    }

    /// Queues a group whose keys are on one node, with its rider.
    fn submit(&self, group: &[Check<'_>], operation: Operation, deadline: Deadline) -> PendingReply {
        for check in group {
            self.client.link.durability.warn_about(check.policy());
        }
        let rider = match (group, operation) {
            ([check], Operation::Wait { .. }) => {
                let (encoder, denials) = (Arc::clone(&self.encoder), Arc::clone(&self.denials));
                Rider::Turn(Box::new(UnclaimedTurn::new(check, encoder, denials, &self.client.lanes)))
            }
            _ => self.riders.rider(group, operation),
        };
        self.client.lanes.submit(self.request(group, operation), rider, deadline)
    }

    fn request(&self, group: &[Check<'_>], operation: Operation) -> Request {
        let new = if operation.overdraws() { LimitArg::overdrawn } else { LimitArg::new };
        let limit = |check| new(self.encoder.key_format.key(check), check);
        Request::new(operation, group.iter().map(limit).collect())
    }

    /// Charges each limit although it may not fit, and ends the caller's denials. Held units pay, if there
    /// are enough. What is left then is not asked for.
    pub(super) async fn overdraw(
        &self,
        group: &[Check<'_>],
        deadline: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        for check in group.chunks(1) {
            if self.take_held(check).is_some() {
                continue;
            }
            // The answer ends the units that were on their way, which would be used beside the debt.
            self.make_way(check, Operation::Overdraw);
            let guard = self.denials.invalidate_on_drop(check);
            let reply = self.submit(check, Operation::Overdraw, deadline).reply().await;
            drop(guard);
            reply?.into_overdrawn(&check[0])?;
        }
        Ok(unknown_outcome(group, self.denials.now()))
    }

    pub(super) fn set_instances(&self, instances: u32) {
        self.riders.held.set_instances(NonZeroU32::new(instances).unwrap_or(NonZeroU32::MIN));
    }

    pub(super) async fn refund_each_caller(
        &self,
        reservation: &Reservation<'_>,
        deadline: Deadline,
    ) -> Result<(), StoreError> {
        // Units that were held may be held again.
        let left = reservation.charges().filter(|charge| !self.riders.held.put_back(charge)).cloned();
        wait_for_all(self.send_refunds(left, deadline)).await
    }

    /// Sends one refund per caller of the charges under rates. What is held is not refunded: it is freed when
    /// its outcome is dropped.
    fn send_refunds<'a>(
        &self,
        charges: impl Iterator<Item = Charge<'a>>,
        deadline: Deadline,
    ) -> SmallVec<[PendingReply; 2]> {
        let charges: SmallVec<[Charge<'_>; 2]> =
            charges.filter(|charge| charge.check().policy().rate_window().is_some()).collect();
        charges
            .chunk_by(|one, next| one.check().partition() == next.check().partition())
            .map(|caller| refund_command(caller, &self.encoder, &self.denials))
            .map(|command| self.client.lanes.send(command, deadline))
            .collect()
    }

    /// Sends a command whose guard is dropped when it has ended.
    fn send(&self, command: Command, guard: impl Send + 'static, deadline: Deadline) -> PendingReply {
        self.client.lanes.send(GuardedCommand { command, guard: Box::new(guard) }, deadline)
    }

    pub(super) async fn reset_each_caller(
        &self,
        group: &[Check<'_>],
        deadline: Deadline,
    ) -> Result<(), StoreError> {
        let key_format = &self.encoder.key_format;
        let sent: SmallVec<[PendingReply; 2]> = split_by_caller(group)
            .into_iter()
            .map(|caller| {
                let checks = caller.checks.iter();
                let keys = checks.map(|check| key_format.redis_key(&key_format.key(check))).collect();
                let guard = (
                    self.riders.reset_on_drop(&caller.checks, key_format),
                    self.denials.invalidate_on_drop(&caller.checks),
                );
                self.send(Command::Delete(keys), guard, deadline)
            })
            .collect();
        wait_for_all(sent).await
    }
}

/// Waits for all commands. Returns the first error, if any.
async fn wait_for_all(commands: SmallVec<[PendingReply; 2]>) -> Result<(), StoreError> {
    let mut result = Ok(());
    for command in commands {
        result = result.and(command.done().await);
    }
    result
}

/// The command that refunds these charges of one caller. When it has ended, the caller's denials are void.
fn refund_command(charges: &[Charge<'_>], encoder: &Encoder, denials: &Arc<DenialCache>) -> GuardedCommand {
    let key_format = &encoder.key_format;
    let mut keys = Keys::new();
    let mut arguments = RefundArgs::new((encoder.now)());
    for charge in charges {
        keys.push(key_format.redis_key(&key_format.key(&charge.check())));
        arguments.push(charge);
    }
    let script = script::refund(charges.iter().map(|charge| charge.check().policy().algorithm()));
    let checks: SmallVec<[Check<'_>; 2]> = charges.iter().map(Charge::check).collect();
    let call = ScriptCall { script, keys, arguments: smallvec![arguments.into_bytes()] };
    GuardedCommand { command: Command::Run(call), guard: Box::new(denials.invalidate_on_drop(&checks)) }
}
