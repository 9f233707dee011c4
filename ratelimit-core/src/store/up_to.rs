//! As many units as fit, by peeks and checks: for stores without an operation of their own.

use std::time::Duration;

use smallvec::SmallVec;

use super::Store;
use crate::check::Check;
use crate::error::StoreError;
use crate::outcome::GroupOutcome;

/// Most attempts of one call. Each is a peek and a check of as many units as are left; it fails if other requests are charged
/// between them.
const MAX_ATTEMPTS: u32 = 4;

/// Charges every limit of the group as many of `units` as fit every limit, or fewer if other requests are charged at the same
/// time. See [`Store::check_up_to_within`].
pub(super) async fn check<S: Store + ?Sized>(
    store: &S,
    group: &[Check<'_>],
    units: u64,
    limit: Duration,
) -> Result<GroupOutcome, StoreError> {
    let with_cost =
        |units| -> SmallVec<[Check<'_>; 2]> { group.iter().map(|check| check.with_cost(units)).collect() };
    let mut most = units;
    let mut attempt = 1;
    loop {
        let nothing = with_cost(0);
        let peeked = store.peek_within(&nothing, limit).await?;
        let enforced = group.iter().zip(peeked.outcomes()).filter(|(_, outcome)| !outcome.is_shadow());
        // A count that several limits share is charged for each of them.
        let sharing = |check: &Check<'_>| group.iter().filter(|other| other.shares_count_with(check)).count();
        let fitting = enforced.map(|(check, outcome)| outcome.remaining() / sharing(check).max(1) as u64);
        let fitting = fitting.min().unwrap_or(most).clamp(most.min(1), most);
        let outcome = store.check_within(&with_cost(fitting), limit).await?;
        if outcome.is_allowed() || fitting <= 1 || attempt == MAX_ATTEMPTS {
            return Ok(outcome);
        }
        (most, attempt) = (fitting - 1, attempt + 1);
    }
}
