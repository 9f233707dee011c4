//! Reservations: what an admitted group was charged, for a refund.

use smallvec::SmallVec;

use crate::check::Check;
use crate::clock::Timestamp;
use crate::outcome::GroupOutcome;

/// Charges of an admitted group, for a [refund](crate::RateLimiter::refund) if the work turns out not to be needed.
///
/// [`GroupOutcome::reservation`] makes it. It borrows the policies and partitions of the checks. Dropping it keeps the
/// charges.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_core::{Check, Policy, RateLimiter};
///
/// static UPLOADS: Policy = Policy::new("uploads", 10, Duration::from_secs(60));
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let limiter = RateLimiter::in_memory();
/// let group = [Check::new(&UPLOADS, "tenant-42").cost(4)];
/// let outcome = limiter.check_all(&group).await?;
/// if let Some(reservation) = outcome.reservation(&group) {
///     limiter.refund(reservation).await?;
/// }
/// assert_eq!(limiter.peek(&UPLOADS, "tenant-42").await?.remaining(), 10);
/// # Ok::<(), ratelimit_core::StoreError>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Reservation<'a> {
    taken: SmallVec<[Taken<'a>; 2]>,
    degraded: bool,
}

impl<'a> Reservation<'a> {
    pub(crate) fn new(taken: SmallVec<[Taken<'a>; 2]>, degraded: bool) -> Self {
        Self { taken, degraded }
    }

    /// A reservation of one charge.
    pub(crate) fn single(taken: Taken<'a>) -> Self {
        Self { taken: smallvec::smallvec![taken], degraded: false }
    }

    /// Whether this process counted by itself, during an outage of the store.
    pub(crate) const fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Charges, one per state, in the order of the group.
    pub fn taken(&self) -> impl ExactSizeIterator<Item = Taken<'a>> + '_ {
        self.taken.iter().copied()
    }
}

/// Charge of one limit.
#[derive(Clone, Copy, Debug)]
pub struct Taken<'a> {
    check: Check<'a>,
    at: Timestamp,
    until: Timestamp,
}

impl<'a> Taken<'a> {
    pub(crate) const fn new(check: Check<'a>, at: Timestamp, until: Timestamp) -> Self {
        Self { check, at, until }
    }

    pub(crate) const fn with_check(self, check: Check<'_>) -> Taken<'_> {
        Taken { check, at: self.at, until: self.until }
    }

    /// Policy, caller and units of the charge.
    pub const fn check(&self) -> Check<'a> {
        self.check
    }

    /// Instant of the charge, by the store's clock.
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// Instant from which the charge no longer counts, so that a refund has no effect.
    pub const fn until(&self) -> Timestamp {
        self.until
    }
}

impl GroupOutcome {
    /// Charges of this decision, for a [refund]. `checks` must be the group of the decision. `None` if nothing was charged.
    ///
    /// [refund]: crate::RateLimiter::refund
    pub fn reservation<'a>(&self, checks: &[Check<'a>]) -> Option<Reservation<'a>> {
        (self.is_allowed() && checks.len() == self.outcomes().len()).then(|| {
            let mut taken: SmallVec<[Taken<'a>; 2]> = SmallVec::new();
            for (check, outcome) in checks.iter().zip(self.outcomes()) {
                let until = outcome.resets_at();
                // A state that occurs twice was charged the sum, and is refunded the sum.
                // An overflow count is not refunded: its units may be those of other callers by then.
                let units = if outcome.is_overflowed() { 0 } else { check.units() };
                match taken.iter_mut().find(|other| other.check().shares_count_with(check)) {
                    Some(other) => {
                        let sum = other.check().units().saturating_add(units);
                        *other = Taken::new(check.cost(sum), outcome.at(), until);
                    }
                    None => taken.push(Taken::new(check.cost(units), outcome.at(), until)),
                }
            }
            Reservation::new(taken, self.is_degraded())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::outcome::{Decision, Outcome};
    use crate::policy::Policy;

    fn allowed(remaining: u64, reset_after: u64) -> Outcome {
        Outcome::new(10, 1, remaining, reset_after, Decision::Allowed)
    }

    fn denied(wait: u64) -> Outcome {
        Outcome::new(10, 1, 0, 60, Decision::RetryAfterMicros(wait))
    }

    fn group<const N: usize>(outcomes: [Outcome; N]) -> GroupOutcome {
        let allowed = outcomes.iter().all(Outcome::is_allowed);
        GroupOutcome::new(Timestamp::from_micros(1_000), allowed, outcomes.into_iter().collect())
    }

    #[test]
    fn only_charges_are_reserved() {
        let policy = Policy::new("k", 10, Duration::from_secs(60));
        let checks = [Check::new(&policy, "a").cost(2), Check::new(&policy, "b")];
        assert!(group([denied(7), allowed(1, 60)]).reservation(&checks).is_none(), "denied");
        assert!(group([allowed(1, 60)]).reservation(&checks).is_none(), "another group");
        let taken = group([allowed(1, 60), allowed(2, 70)]).reservation(&checks).unwrap();
        assert!(taken.taken().all(|taken| taken.at() == Timestamp::from_micros(1_000)));
        let taken: Vec<(u64, u64)> =
            taken.taken().map(|taken| (taken.check().units(), taken.until().as_micros())).collect();
        assert_eq!(taken, [(2, 1_060), (1, 1_070)]);
    }

    #[test]
    fn a_state_that_was_charged_a_sum_is_reserved_once() {
        let (policy, other) = (
            Policy::new("k", 10, Duration::from_secs(60)),
            Policy::new("other", 10, Duration::from_secs(60)),
        );
        let same_count = Policy::new("k", 99, Duration::from_secs(60));
        let checks = [
            Check::new(&policy, "a").cost(2),
            Check::new(&other, "a"),
            Check::new(&same_count, "a").cost(3),
            Check::new(&policy, "b"),
        ];
        let outcome = group([0; 4].map(|_| allowed(5, 60)));
        let taken = outcome.reservation(&checks).unwrap();
        let taken: Vec<(&str, u64)> =
            taken.taken().map(|taken| (taken.check().policy().key(), taken.check().units())).collect();
        assert_eq!(taken, [("k", 5), ("other", 1), ("k", 1)]);
    }
}
