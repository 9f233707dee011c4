//! Sends groups, refunds and resets to the server; in a cluster one call per caller. A turn whose reply nothing waits for is refunded.

use std::slice;
use std::sync::{Arc, Weak};

use smallvec::{SmallVec, smallvec};

use super::client::Client;
use super::command::{Command, GuardedCommand, Keys, ScriptCall};
use super::denial_cache::DenialCache;
use super::lanes::{Lanes, PendingReply};
use super::protocol::{Encoder, LimitArg, RefundArgs, Reply, Request, Unclaimed};
use super::riders::{Rider, Riders};
use super::script;
use crate::algorithm::Operation;
use crate::check::{Check, OwnedCheck};
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::observe::log::{LogLimit, help};
use crate::outcome::{GroupOutcome, Outcome};
use crate::reservation::{Charge, Reservation};
use crate::store::Deadline;

/// The checks of a group with one caller, whose keys share a hash tag, and their indices in the group.
struct CallerChecks<'a> {
    checks: SmallVec<[Check<'a>; 2]>,
    indices: SmallVec<[usize; 2]>,
}

fn split_by_caller<'a>(group: &[Check<'a>]) -> SmallVec<[CallerChecks<'a>; 2]> {
    let mut callers: SmallVec<[CallerChecks<'a>; 2]> = SmallVec::new();
    for (index, check) in group.iter().enumerate() {
        match callers.iter_mut().find(|caller| caller.checks[0].partition() == check.partition()) {
            Some(caller) => {
                caller.checks.push(*check);
                caller.indices.push(index);
            }
            None => callers.push(CallerChecks { checks: smallvec![*check], indices: smallvec![index] }),
        }
    }
    callers
}

/// Reports limits about which the server gave no answer: not violated, and nothing known to remain.
pub(super) fn unknown_outcome(checks: &[Check<'_>], at: Timestamp) -> GroupOutcome {
    GroupOutcome::new(at, checks.iter().map(Outcome::unknown))
}

/// The outcome of one caller's checks while nothing is charged.
enum PeekedOutcome {
    Known(GroupOutcome),
    Pending(PendingReply),
}

/// Sends groups to the server, and splits those of several callers in a cluster.
pub(super) struct GroupClient {
    pub(super) client: Client,
    encoder: Arc<Encoder>,
    pub(super) denials: Arc<DenialCache>,
    pub(super) riders: Riders,
    /// For refunds of denied groups that fail.
    refund_log: LogLimit,
}

impl GroupClient {
    pub(super) fn new(
        client: Client,
        encoder: Arc<Encoder>,
        denials: Arc<DenialCache>,
        riders: Riders,
    ) -> Self {
        Self { client, encoder, denials, riders, refund_log: LogLimit::default() }
    }

    fn request(&self, group: &[Check<'_>], operation: Operation) -> Request {
        let new = if operation.overdraws() { LimitArg::overdrawn } else { LimitArg::new };
        let limit = |check| new(self.encoder.key_format.key(check), check);
        Request::new(operation, group.iter().map(limit).collect())
    }

    /// Queues a group whose keys are on one node, with its rider.
    fn submit(&self, group: &[Check<'_>], operation: Operation, deadline: Deadline) -> PendingReply {
        for check in group {
            self.client.link.durability.warn_about(check.policy());
        }
        let rider = match (group, operation) {
            ([check], Operation::Wait { .. }) if check.has_turns() => {
                let (encoder, denials) = (Arc::clone(&self.encoder), Arc::clone(&self.denials));
                Rider::Turn(Box::new(UnclaimedTurn::new(check, encoder, denials, &self.client.lanes)))
            }
            _ => self.riders.rider(group, operation),
        };
        self.client.lanes.submit(self.request(group, operation), rider, deadline)
    }

    /// Admits a request by held units, if there are enough for all of its limits.
    pub(super) fn try_held(&self, group: &[Check<'_>]) -> Option<GroupOutcome> {
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

    /// Has the server decide about a group as a whole, and charge it if it passes. Held units that are in the way go back before.
    pub(super) async fn charge(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        deadline: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        self.make_way(group, operation);
        let outcome = self.decide(group, operation, deadline).await?;
        Ok(self.riders.held.with_held(group, outcome, operation))
    }

    /// Sends what is held of the limits back, as far as it is in the way, before the request that follows.
    fn make_way(&self, group: &[Check<'_>], operation: Operation) {
        let is_cluster = self.client.link.is_cluster();
        for command in self.riders.held.make_way(group, operation, &self.encoder, is_cluster) {
            drop(self.client.lanes.send(command, self.client.lanes.deadline()));
        }
    }

    /// Charges one limit although it may not fit, and ends the caller's denials. Held units pay, if there are enough.
    pub(super) async fn overdraw(&self, check: &Check<'_>, deadline: Deadline) -> Result<(), StoreError> {
        let group = slice::from_ref(check);
        if self.try_held(group).is_some() {
            return Ok(());
        }
        // The answer ends the units that were on their way, which would be used beside the debt.
        self.make_way(group, Operation::Overdraw);
        let guard = self.denials.invalidate_on_drop(group);
        let reply = self.submit(group, Operation::Overdraw, deadline).reply().await;
        drop(guard);
        reply?.into_overdrawn(check)
    }

    /// Whether the group takes several calls: in a cluster, if it has several callers.
    pub(super) fn is_split(&self, group: &[Check<'_>]) -> bool {
        self.client.link.is_cluster()
            && group.windows(2).any(|pair| pair[0].partition() != pair[1].partition())
    }

    pub(super) async fn decide(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        deadline: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        if self.client.link.is_cluster() {
            let callers = split_by_caller(group);
            if callers.len() > 1 {
                return self.decide_each_caller(group.len(), &callers, operation, deadline).await;
            }
        }
        self.submit(group, operation, deadline).reply().await?.into_outcome(group)
    }

    /// Decides about several callers, which may be on different nodes: charges them in order, and refunds the charges if
    /// one of them is denied. All of that has one deadline.
    async fn decide_each_caller(
        &self,
        size: usize,
        callers: &[CallerChecks<'_>],
        operation: Operation,
        mut deadline: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        let mut outcomes: SmallVec<[GroupOutcome; 2]> = SmallVec::new();
        // Index and outcome of the denied caller.
        let mut denied = None;
        if operation == Operation::Check {
            for (index, caller) in callers.iter().enumerate() {
                let reply = self.submit(&caller.checks, Operation::Check, deadline).reply();
                let reply = deadline.share(reply).await;
                match reply.and_then(|reply| reply.into_outcome(&caller.checks)) {
                    Ok(outcome) if outcome.is_allowed() => outcomes.push(outcome),
                    Ok(outcome) => {
                        self.refund_charged(callers, &outcomes, &mut deadline).await;
                        // Frees the slots, so that the peeks below find them free.
                        outcomes.clear();
                        denied = Some((index, outcome));
                        break;
                    }
                    Err(error) => {
                        self.refund_charged(callers, &outcomes, &mut deadline).await;
                        return Err(error);
                    }
                }
            }
        }
        let allowed = denied.is_none();
        let (denied_at, denied_index) = match &denied {
            Some((index, outcome)) => (Some(outcome.at()), *index),
            None => (None, callers.len()),
        };
        if operation != Operation::Check || !allowed {
            // Nothing more is charged, so all other callers are peeked at once: the outcome reports every limit. A caller that
            // was not judged so far may exceed a limit as well, which begins its block.
            let peeked: SmallVec<[PeekedOutcome; 2]> = (callers.iter().enumerate())
                .map(|(index, caller)| {
                    if let Some((_, outcome)) = denied.take_if(|(known, _)| *known == index) {
                        return PeekedOutcome::Known(outcome);
                    }
                    let operation = if index > denied_index { Operation::Judge } else { Operation::Peek };
                    PeekedOutcome::Pending(self.submit(&caller.checks, operation, deadline))
                })
                .collect();
            for (peeked, caller) in peeked.into_iter().zip(callers) {
                outcomes.push(match peeked {
                    PeekedOutcome::Known(outcome) => outcome,
                    PeekedOutcome::Pending(pending) => {
                        let reply = pending.reply().await;
                        let peeked = reply.and_then(|reply| reply.into_outcome(&caller.checks));
                        match (peeked, denied_at) {
                            // The group is denied all the same; a failure policy might admit it.
                            (Err(_), Some(at)) => unknown_outcome(&caller.checks, at),
                            (peeked, _) => peeked?,
                        }
                    }
                });
            }
        }
        let allowed = allowed && outcomes.iter().all(GroupOutcome::is_allowed);
        let indices = callers.iter().map(|caller| &caller.indices[..]);
        Ok(GroupOutcome::join(size, allowed, indices.zip(&outcomes)))
    }

    /// Refunds the charges of the first callers of a denied group, one outcome for each. A charge behind which turns are not due stays.
    async fn refund_charged(
        &self,
        callers: &[CallerChecks<'_>],
        outcomes: &[GroupOutcome],
        deadline: &mut Deadline,
    ) {
        let sent = callers.iter().zip(outcomes).filter_map(|(caller, outcome)| {
            let reservation = outcome.reservation(&caller.checks)?;
            Some(self.send_refunds(reservation.charges().cloned(), *deadline))
        });
        let sent: SmallVec<[PendingReply; 2]> = sent.flatten().collect();
        if let Err(error) = deadline.share(wait_for_all(sent)).await
            && !matches!(error, StoreError::TurnsNotDue)
            && self.refund_log.may_log()
        {
            // The units then count until their window is over: fewer requests pass than may, never more.
            tracing::warn!(
                error = %error,
                help = help("failed-refund"),
                "could not refund the charges of a denied group"
            );
        }
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

    /// Sends one refund per caller of the charges under rates. What is held is not refunded: it is freed when its outcome is dropped.
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

/// A turn that goes back if nothing waits for its reply: the future was dropped while the call was in flight, or its deadline has
/// passed.
struct UnclaimedTurn {
    check: OwnedCheck,
    encoder: Arc<Encoder>,
    denials: Arc<DenialCache>,
    /// Weak, because the lanes have their requests.
    lanes: Weak<Lanes>,
}

impl UnclaimedTurn {
    fn new(check: &Check<'_>, encoder: Arc<Encoder>, denials: Arc<DenialCache>, lanes: &Arc<Lanes>) -> Self {
        Self { check: OwnedCheck::new(check), encoder, denials, lanes: Arc::downgrade(lanes) }
    }
}

impl Unclaimed for UnclaimedTurn {
    fn refund(&self, reply: &Reply) {
        let check = self.check.check();
        let outcome = reply.outcome(slice::from_ref(&check)).ok().and_then(GroupOutcome::into_only);
        if let (Some(outcome), Some(lanes)) = (outcome.filter(Outcome::is_allowed), self.lanes.upgrade()) {
            let charge = Charge::turn(check, &outcome);
            let command = refund_command(&[charge], &self.encoder, &self.denials);
            // It goes on by itself.
            drop(lanes.send(command, lanes.deadline()));
        }
    }
}
