//! As many units as fit, by peeks and checks: for stores without an operation of their own.

use std::time::Duration;

use smallvec::SmallVec;

use super::Store;
use crate::check::Check;
use crate::clock::{Clock, SystemClock};
use crate::error::StoreError;
use crate::outcome::GroupOutcome;

/// Most attempts of one call. Each is a peek and a check of as many units as are left; it fails if other requests are charged
/// between them.
const MAX_ATTEMPTS: u32 = 4;

/// Charges every limit of the group as many of `units` as fit every limit, or fewer if other requests are charged at the same
/// time. All of that has one deadline. See [`Store::check_up_to_within`].
pub(super) async fn check<S: Store + ?Sized>(
    store: &S,
    group: &[Check<'_>],
    units: u64,
    limit: Duration,
) -> Result<GroupOutcome, StoreError> {
    let with_cost =
        |units| -> SmallVec<[Check<'_>; 2]> { group.iter().map(|check| check.with_cost(units)).collect() };
    let limit = store.deadline().map_or(limit, |own| own.min(limit));
    let clock = SystemClock::new();
    let end = clock.now().saturating_add(limit);
    let left = || Duration::from_micros(end.as_micros().saturating_sub(clock.now().as_micros()));
    let in_total = |error| match error {
        StoreError::Timeout { .. } if left().is_zero() => StoreError::timeout(limit),
        error => error,
    };
    let mut most = units;
    let mut attempt = 1;
    loop {
        let nothing = with_cost(0);
        let peeked = store.peek_within(&nothing, left()).await.map_err(in_total)?;
        let enforced = group.iter().zip(peeked.outcomes()).filter(|(_, outcome)| !outcome.is_shadow());
        // A count that several limits share is charged for each of them.
        let sharing = |check: &Check<'_>| group.iter().filter(|other| other.shares_count_with(check)).count();
        let fitting = enforced.map(|(check, outcome)| outcome.remaining() / sharing(check).max(1) as u64);
        let fitting = fitting.min().unwrap_or(most).clamp(most.min(1), most);
        let outcome = store.check_within(&with_cost(fitting), left()).await.map_err(in_total)?;
        if outcome.is_allowed() || fitting <= 1 || attempt == MAX_ATTEMPTS {
            return Ok(outcome);
        }
        (most, attempt) = (fitting - 1, attempt + 1);
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::clock::Timestamp;
    use crate::outcome::{Decision, Outcome};
    use crate::policy::Policy;
    use crate::reservation::Reservation;

    /// A store in which seven units remain at each look, and other requests take them before each check.
    #[derive(Debug, Default)]
    struct Contended {
        /// The cost of each check.
        tried: Mutex<Vec<u64>>,
    }

    impl Contended {
        fn decide(group: &[Check<'_>], decision: Decision) -> GroupOutcome {
            let outcome =
                |check: &Check<'_>| Outcome::new(10, decision).with_cost(check.cost()).with_remaining(7);
            GroupOutcome::new(Timestamp::default(), group.iter().map(outcome))
        }
    }

    impl Store for Contended {
        async fn check(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
            self.tried.lock().push(group[0].cost());
            Ok(Self::decide(group, Decision::Denied { retry_after: Some(Duration::from_secs(1)) }))
        }

        async fn peek(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
            Ok(Self::decide(group, Decision::Allowed))
        }

        async fn reset(&self, _: &[Check<'_>]) -> Result<(), StoreError> {
            Ok(())
        }

        async fn refund(&self, _: &Reservation<'_>) -> Result<(), StoreError> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn after_a_denial_fewer_units_are_tried() {
        let (store, policy) = (Contended::default(), Policy::builder("p").max(10).build());
        let outcome = check(&store, &[Check::new(&policy, "caller")], 9, Duration::MAX).await.unwrap();
        assert!(!outcome.is_allowed());
        assert_eq!(*store.tried.lock(), [7, 6, 5, 4]);
    }
}
