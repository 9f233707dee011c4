//! As many units as fit for several callers of a cluster, by peeks and checks: their states may be on different nodes.

use smallvec::SmallVec;

use crate::algorithm::Operation;
use crate::check::Check;
use crate::error::StoreError;
use crate::outcome::GroupOutcome;
use crate::store::Deadline;

/// Most attempts of one call. Each is a peek and a check of as many units as are left, the last one of one unit; it fails if other
/// requests are charged between them.
const MAX_ATTEMPTS: u32 = 4;

/// Charges every limit of the group as many units as fit every limit, at most the cost of the checks, or fewer if other requests
/// are charged at the same time. All of that has one deadline.
pub(super) async fn check<'a, F: Future<Output = Result<GroupOutcome, StoreError>>>(
    group: &[Check<'a>],
    mut deadline: Deadline,
    decide: impl Fn(SmallVec<[Check<'a>; 2]>, Operation, Deadline) -> F,
) -> Result<GroupOutcome, StoreError> {
    let with_cost = |units| group.iter().map(|check| check.with_cost(units)).collect();
    let mut most = group.first().map_or(0, Check::cost);
    let mut attempt = 1;
    loop {
        let peeked = deadline.share(decide(with_cost(0), Operation::Peek, deadline)).await?;
        // A count that several limits share is charged for each of them.
        let sharing = |check: &Check<'_>| group.iter().filter(|other| other.shares_count_with(check)).count();
        let fitting = peeked
            .enforced()
            .map(|(index, outcome)| outcome.remaining() / sharing(&group[index]).max(1) as u64);
        let fitting = fitting.min().unwrap_or(most).clamp(most.min(1), most);
        // The last denial has to be that of one unit.
        let fitting = if attempt == MAX_ATTEMPTS { most.min(1) } else { fitting };
        let outcome = deadline.share(decide(with_cost(fitting), Operation::Check, deadline)).await?;
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
        let outcome =
            check(&[Check::new(&policy, "caller").with_cost(9)], Deadline::none(), decide).await.unwrap();
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
                    check(&group, Deadline::none(), decide).await.unwrap(),
                    expected,
                    "{algorithm}: {units}"
                );
            }
        }
    }
}
