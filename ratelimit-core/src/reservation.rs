//! What an admitted group was charged, so that it can be refunded.

use smallvec::SmallVec;

use crate::check::Check;
use crate::clock::Timestamp;
use crate::outcome::GroupOutcome;

/// What an admitted group took, so that it can be given back.
#[derive(Clone, Debug)]
pub struct Reservation<'a> {
    taken: SmallVec<[Taken<'a>; 2]>,
    degraded: bool,
}

impl<'a> Reservation<'a> {
    pub(crate) fn new(taken: SmallVec<[Taken<'a>; 2]>, degraded: bool) -> Self {
        Self { taken, degraded }
    }

    /// A reservation of one thing.
    pub(crate) fn of(taken: Taken<'a>) -> Self {
        Self { taken: smallvec::smallvec![taken], degraded: false }
    }

    /// Whether the store was out, so that this process counted by itself.
    pub(crate) const fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// What was taken, once for each count, in the order of the group.
    pub fn taken(&self) -> impl ExactSizeIterator<Item = Taken<'a>> + '_ {
        self.taken.iter().copied()
    }
}

/// What one limit was charged.
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

    /// The limit, the caller and the units.
    pub const fn check(&self) -> Check<'a> {
        self.check
    }

    /// The instant at which it was charged, by the store's clock.
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// The instant from which it no longer counts anyway.
    pub const fn until(&self) -> Timestamp {
        self.until
    }
}

impl GroupOutcome {
    /// What this decision took from `checks`, the very group it was made about, to be [refunded] in case it turns out
    /// not to be needed. `None` when nothing was taken.
    ///
    /// [refunded]: crate::RateLimiter::refund
    pub fn reservation<'a>(&self, checks: &[Check<'a>]) -> Option<Reservation<'a>> {
        (self.is_allowed() && checks.len() == self.outcomes().len()).then(|| {
            let mut taken: SmallVec<[Taken<'a>; 2]> = SmallVec::new();
            for (check, outcome) in checks.iter().zip(self.outcomes()) {
                let until = outcome.resets_at();
                // A count that occurs twice was charged the sum, and is given back the sum.
                // What many share is not given back: by then another may have been charged it.
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
    fn only_what_was_taken_is_reserved() {
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
    fn a_count_that_was_charged_a_sum_is_reserved_as_one() {
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
