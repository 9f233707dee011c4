//! A group of several callers in a cluster, whose states may be on different nodes: one call per caller.
//!
//! The callers are charged in their order. If one is denied, the charges of those before it are refunded, and
//! all others are peeked at once, so that the outcome reports every limit.

use smallvec::SmallVec;

use super::requests::{CallerChecks, Groups, split_by_caller, unknown_outcome, wait_for_all};
use crate::algorithm::Operation;
use crate::check::Check;
use crate::error::StoreError;
use crate::observe::log::help;
use crate::outcome::GroupOutcome;
use crate::store::Deadline;
use crate::store::deadline::now;
use crate::store::redis::lanes::PendingReply;

/// Most attempts to charge as many units as fit. Each is a peek and a check of as many units as are left, the
/// last one of one unit; it fails if other requests are charged between them.
const MAX_ATTEMPTS: u32 = 4;

type Outcomes = SmallVec<[GroupOutcome; 2]>;

/// The caller by which a group is denied.
struct Denied {
    index: usize,
    outcome: GroupOutcome,
}

impl Groups {
    /// Decides about each caller. All of that has one deadline.
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
                Err(denied) => self.peek_others(&callers, Some(denied), &mut deadline).await?,
            },
            _ => self.peek_others(&callers, None, &mut deadline).await?,
        };
        let allowed = outcomes.iter().all(GroupOutcome::is_allowed);
        let indices = callers.iter().map(|caller| &caller.indices[..]);
        Ok(GroupOutcome::join(group.len(), allowed, indices.zip(&outcomes)))
    }

    /// Charges the callers in their order. At the first denial, or error, refunds the charges of those
    /// before.
    async fn charge_in_order(
        &self,
        callers: &[CallerChecks<'_>],
        deadline: &mut Deadline,
    ) -> Result<Result<Outcomes, Box<Denied>>, StoreError> {
        let mut outcomes = Outcomes::new();
        for (index, caller) in callers.iter().enumerate() {
            let pending = self.submit(&caller.checks, Operation::Check, deadline);
            let reply = pending.reply(deadline).await;
            match reply.and_then(|reply| reply.into_outcome(&caller.checks)) {
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

    /// Peeks all callers at once but the one that is denied. Those behind it were not judged so far: one of
    /// them may exceed a limit as well, which begins its block.
    async fn peek_others(
        &self,
        callers: &[CallerChecks<'_>],
        mut denied: Option<Box<Denied>>,
        deadline: &mut Deadline,
    ) -> Result<Outcomes, StoreError> {
        let denied_index = denied.as_ref().map_or(callers.len(), |denied| denied.index);
        let denied_at = denied.as_ref().map(|denied| denied.outcome.at());
        let mut submit = |(index, caller): (usize, &CallerChecks<'_>)| {
            let operation = if index > denied_index { Operation::Judge } else { Operation::Peek };
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
            let peeked = pending.reply(deadline).await.and_then(|reply| reply.into_outcome(&caller.checks));
            outcomes.push(match (peeked, denied_at) {
                // The group is denied all the same; a failure policy might admit it.
                (Err(_), Some(at)) => unknown_outcome(&caller.checks, at),
                (peeked, _) => peeked?,
            });
        }
        Ok(outcomes)
    }

    /// Refunds the charges of the first callers of a denied group, one outcome for each. A charge behind
    /// which turns are not due stays.
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
            // The units then count until their window is over: fewer requests pass than may, never more.
            tracing::warn!(
                error = %error,
                help = help("failed-refund"),
                "could not refund the charges of a denied group"
            );
        }
    }
}

/// Charges every limit of the group as many units as fit every limit, at most the cost of the checks, or
/// fewer if other requests are charged at the same time. All of that has one deadline.
pub(super) async fn up_to<'a, F: Future<Output = Result<GroupOutcome, StoreError>>>(
    group: &[Check<'a>],
    mut deadline: Deadline,
    decide: impl Fn(SmallVec<[Check<'a>; 2]>, Operation, Deadline) -> F,
) -> Result<GroupOutcome, StoreError> {
    let with_cost = |units| group.iter().map(|check| check.with_cost(units)).collect();
    let mut most = group.first().map_or(0, Check::cost);
    let mut attempt = 1;
    loop {
        // A grace of this operation is that of its round trips.
        if deadline.has_passed(now()) {
            return Err(deadline.timeout_error().into());
        }
        let peeked = decide(with_cost(0), Operation::Peek, deadline).await?;
        // A count that several limits share is charged for each of them.
        let sharing = |check: &Check<'_>| group.iter().filter(|other| other.shares_count_with(check)).count();
        let fitting = peeked
            .enforced()
            .map(|(index, outcome)| outcome.remaining() / sharing(&group[index]).max(1) as u64);
        let fitting = fitting.min().unwrap_or(most).clamp(most.min(1), most);
        // The last denial has to be that of one unit.
        let fitting = if attempt == MAX_ATTEMPTS { most.min(1) } else { fitting };
        let outcome = decide(with_cost(fitting), Operation::Check, deadline).await?;
        if outcome.is_allowed() || fitting <= 1 {
            return Ok(outcome);
        }
        (most, attempt) = (fitting - 1, attempt + 1);
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::time::Duration;

    use parking_lot::Mutex;

    use super::*;
    use crate::clock::{FakeClock, Timestamp};
    use crate::outcome::{Decision, Outcome};
    use crate::policy::{Algorithm, Policy};
    use crate::store::memory::MemoryStore;

    #[tokio::test]
    async fn after_a_denial_fewer_units_are_tried() {
        let policy = Policy::builder("p").max(10).build();
        // Seven units remain at each peek, and other requests take them before each check.
        let tried = Mutex::new(Vec::new());
        let decide = |checks: SmallVec<[Check<'_>; 2]>, operation, _| {
            let decision = if operation == Operation::Peek {
                Decision::Allowed
            } else {
                tried.lock().push(checks[0].cost());
                Decision::Denied { retry_after: Some(Duration::from_secs(1)) }
            };
            let outcome = Outcome::new(10, decision).with_cost(checks[0].cost()).with_remaining(7);
            ready(Ok(GroupOutcome::new(Timestamp::default(), [outcome])))
        };
        let outcome = up_to(
            &[Check::new(&policy, "caller").with_cost(9)],
            Deadline::after(Duration::from_secs(3600)),
            decide,
        )
        .await
        .unwrap();
        assert!(!outcome.is_allowed());
        assert_eq!(*tried.lock(), [7, 6, 5, 1]);
    }

    #[tokio::test]
    async fn without_other_requests_as_many_units_are_charged_as_by_the_operation() {
        let clock = FakeClock::at(Timestamp::from_micros(1_790_000_000_000_000));
        let store = || MemoryStore::new().with_clock(clock.clone());
        for &algorithm in Algorithm::ALL {
            let policy = Policy::builder("p").algorithm(algorithm).max(9).build();
            let (store, expected) = (store(), store());
            for units in [1, 100, 100, 0] {
                let decide = |group: SmallVec<[Check<'_>; 2]>, operation, _| {
                    ready(Ok(store.decide_group(&group, operation)))
                };
                let group = ["a", "b", "a"].map(|caller| Check::new(&policy, caller).with_cost(units));
                let expected = expected.decide_group(&group, Operation::UpTo);
                assert_eq!(
                    up_to(&group, Deadline::after(Duration::from_secs(3600)), decide).await.unwrap(),
                    expected,
                    "{algorithm}: {units}"
                );
            }
        }
    }
}
