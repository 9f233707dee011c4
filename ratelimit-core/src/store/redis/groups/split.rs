//! A group of several callers in a cluster, whose states may be on different nodes: one call per caller.
//!
//! The callers are charged in their order. If a caller is denied, the charges of the callers before it are
//! refunded, and all others are peeked at once, so that the outcome reports every limit.

use smallvec::SmallVec;

use super::requests::{CallerChecks, Groups, split_by_caller, wait_for_all};
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
    /// Decides about a group that no single call can decide about. All calls share one deadline.
    pub(in crate::store::redis) async fn end_by_several_calls(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        mut deadline: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        match operation {
            Operation::Overdraw => {
                for check in group.chunks(1) {
                    let mut sent = self.begin(check, operation, deadline, false);
                    let _ = self.end(check, &mut sent).await?;
                    // It may have been extended, which is done once.
                    deadline = sent.deadline;
                }
                Ok(GroupOutcome::unknown(self.shared.denials.now(), group))
            }
            Operation::UpTo => Err(StoreError::SeveralCallers),
            _ => self.call_each(group, operation, &mut deadline).await,
        }
    }

    async fn call_each(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        deadline: &mut Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        let mut notes = self.note(group, operation);
        let callers = split_by_caller(group);
        let outcomes = match operation {
            Operation::Check => match self.charge_in_order(&callers, deadline).await? {
                Ok(outcomes) => outcomes,
                Err(denied) => self.look_at_others(&callers, Operation::Peek, Some(denied), deadline).await?,
            },
            _ => self.look_at_others(&callers, operation, None, deadline).await?,
        };
        let allowed = outcomes.iter().all(GroupOutcome::is_allowed);
        let indices = callers.iter().map(|caller| &caller.indices[..]);
        let outcome = GroupOutcome::join(group.len(), allowed, indices.zip(&outcomes));
        Ok(self.conclude(group, outcome, &mut notes))
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
            let mut pending = self.submit(&caller.checks, Operation::Check, deadline, false);
            match pending.outcome(&caller.checks, deadline).await {
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
            (index != denied_index).then(|| self.submit(&caller.checks, operation, deadline, false))
        };
        let pending: SmallVec<[Option<PendingReply>; 2]> =
            callers.iter().enumerate().map(&mut submit).collect();
        let mut outcomes = Outcomes::new();
        for (pending, caller) in pending.into_iter().zip(callers) {
            let Some(mut pending) = pending else {
                outcomes.extend(denied.take().map(|denied| denied.outcome));
                continue;
            };
            outcomes.push(match (pending.outcome(&caller.checks, deadline).await, denied_at) {
                // The group is denied all the same; a failure policy might admit it.
                (Err(_), Some(at)) => GroupOutcome::unknown(at, &caller.checks),
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
