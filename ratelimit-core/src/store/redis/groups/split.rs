//! A group of several callers in a cluster, whose states may be on different nodes: one call per caller.
//!
//! The callers are charged in their order. If a caller is denied, the charges of the callers before it are
//! refunded, and all others are peeked at once, so that the outcome reports every limit.

use smallvec::SmallVec;

use super::requests::{CallerChecks, Groups, split_by_caller, unknown_outcome, wait_for_all};
use crate::algorithm::Operation;
use crate::check::Check;
use crate::error::StoreError;
use crate::observe::log::help;
use crate::outcome::GroupOutcome;
use crate::store::Deadline;
use crate::store::redis::lanes::PendingReply;

type Outcomes = SmallVec<[GroupOutcome; 2]>;

/// The caller by which a group is denied.
struct Denied {
    index: usize,
    outcome: GroupOutcome,
}

impl Groups {
    /// Decides about each caller. All calls share one deadline.
    pub(super) async fn decide_each_caller(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        deadline: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        let mut deadline = deadline.on_no_worker();
        let callers = split_by_caller(group);
        let outcomes = match operation {
            Operation::Check => match self.charge_in_order(&callers, &mut deadline).await? {
                Ok(outcomes) => outcomes,
                Err(denied) => {
                    self.look_at_others(&callers, Operation::Peek, Some(denied), &mut deadline).await?
                }
            },
            _ => self.look_at_others(&callers, operation, None, &mut deadline).await?,
        };
        let allowed = outcomes.iter().all(GroupOutcome::is_allowed);
        let indices = callers.iter().map(|caller| &caller.indices[..]);
        Ok(GroupOutcome::join(group.len(), allowed, indices.zip(&outcomes)))
    }

    /// Charges the callers in their order. At the first denial or error, refunds the charges of the callers
    /// before it.
    async fn charge_in_order(
        &self,
        callers: &[CallerChecks<'_>],
        deadline: &mut Deadline,
    ) -> Result<Result<Outcomes, Box<Denied>>, StoreError> {
        let mut outcomes = Outcomes::new();
        for (index, caller) in callers.iter().enumerate() {
            let pending = self.submit(&caller.checks, Operation::Check, deadline);
            let reply = pending.reply(deadline).await;
            match reply.and_then(|mut reply| reply.claim(&caller.checks)) {
                Ok(outcome) if outcome.is_allowed() => outcomes.push(outcome),
                ended => {
                    self.refund_charged(callers, &outcomes, deadline).await;
                    // The outcomes end here, which frees their slots: the peeks find them free.
                    return ended.map(|outcome| Err(Box::new(Denied { index, outcome })));
                }
            }
        }
        Ok(Ok(outcomes))
    }

    /// Peeks or judges all callers at once, except the caller that is denied. The callers after it were not
    /// judged so far: they may exceed a limit as well, which begins its block.
    async fn look_at_others(
        &self,
        callers: &[CallerChecks<'_>],
        operation: Operation,
        mut denied: Option<Box<Denied>>,
        deadline: &mut Deadline,
    ) -> Result<Outcomes, StoreError> {
        let denied_index = denied.as_ref().map_or(callers.len(), |denied| denied.index);
        let denied_at = denied.as_ref().map(|denied| denied.outcome.at());
        let mut submit = |(index, caller): (usize, &CallerChecks<'_>)| {
            let operation = if index > denied_index { Operation::Judge } else { operation };
            (index != denied_index).then(|| self.submit(&caller.checks, operation, deadline))
        };
        let pending: SmallVec<[Option<PendingReply>; 2]> =
            callers.iter().enumerate().map(&mut submit).collect();
        let mut outcomes = Outcomes::new();
        for (pending, caller) in pending.into_iter().zip(callers) {
            let Some(pending) = pending else {
                outcomes.extend(denied.take().map(|denied| denied.outcome));
                continue;
            };
            let peeked = pending.reply(deadline).await.and_then(|mut reply| reply.claim(&caller.checks));
            outcomes.push(match (peeked, denied_at) {
                // The group is denied all the same; a failure policy might admit it.
                (Err(_), Some(at)) => unknown_outcome(&caller.checks, at),
                (peeked, _) => peeked?,
            });
        }
        Ok(outcomes)
    }

    /// Refunds the charges of the first callers of a denied group, one outcome for each. A charge stays if
    /// later turns are not due.
    async fn refund_charged(
        &self,
        callers: &[CallerChecks<'_>],
        outcomes: &[GroupOutcome],
        deadline: &mut Deadline,
    ) {
        let sent = callers.iter().zip(outcomes).filter_map(|(caller, outcome)| {
            let reservation = outcome.reservation(&caller.checks)?;
            Some(self.send_refunds(reservation.charges().cloned()))
        });
        let sent: SmallVec<[PendingReply; 2]> = sent.flatten().collect();
        if let Err(error) = wait_for_all(sent, deadline).await
            && !matches!(error, StoreError::TurnsNotDue)
            && self.refund_log.may_log()
        {
            // The units then count until their window is over: too few requests pass, never too many.
            tracing::warn!(
                error = %error,
                help = help("failed-refund"),
                "could not refund the charges of a denied group"
            );
        }
    }
}
