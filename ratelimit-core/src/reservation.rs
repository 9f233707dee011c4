//! Reservations: what an admitted group was charged, for a refund.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::check::{Check, OwnedCheck};
use crate::clock::Timestamp;
use crate::outcome::{GroupOutcome, Outcome};

/// Charges of an admitted group, for a [refund](crate::RateLimiter::refund) if the work turns out not to be
/// needed.
///
/// [`GroupOutcome::reservation`] makes it. It borrows the policies and partitions of the checks, so that it
/// takes no allocation; [`into_owned`](Self::into_owned) copies them, for a refund after the request. The
/// units stay charged while it is kept, and a refund returns those that still count. Dropping a reservation
/// keeps the charges.
///
/// **Warning:** take it from an outcome once, and do not retry a refund that failed: the first one may still
/// take effect.
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
/// let group = [Check::new(&UPLOADS, "tenant-42").with_cost(4)];
/// let outcome = limiter.check_all(&group).await?;
/// if let Some(reservation) = outcome.reservation(&group) {
///     limiter.refund(reservation).await?;
/// }
/// assert_eq!(limiter.peek(&UPLOADS, "tenant-42").await?.remaining(), 10);
/// # Ok::<(), ratelimit_core::StoreError>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "dropping a reservation keeps the charges; pass it to `RateLimiter::refund` to return them"]
pub struct Reservation<'a> {
    charges: SmallVec<[Charge<'a>; 2]>,
    degraded: bool,
}

impl<'a> Reservation<'a> {
    pub(crate) fn new(charges: SmallVec<[Charge<'a>; 2]>, degraded: bool) -> Self {
        Self { charges, degraded }
    }

    /// A reservation of one charge.
    pub(crate) fn single(charge: Charge<'a>) -> Self {
        Self { charges: smallvec::smallvec![charge], degraded: false }
    }

    /// Whether this process counted by itself, during an outage of the store.
    pub(crate) const fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Takes one limit out: the first charge of a policy with this [name](crate::Policy::name). `None` if
    /// there is none.
    ///
    /// For [`settle`](crate::RateLimiter::settle), while the other limits keep their charges, or are refunded
    /// with what is left of this reservation.
    pub fn take_limit(&mut self, name: &str) -> Option<Self> {
        let index = self.charges().position(|charge| charge.check().policy().name() == name)?;
        Some(Self { degraded: self.degraded, ..Self::single(self.charges.remove(index)) })
    }

    /// Copies the policies and partitions, so that the reservation can outlive the request, for example in a
    /// spawned job.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_core::{Check, Policy, RateLimiter};
    ///
    /// static EXPORTS: Policy = Policy::new("exports", 10, Duration::from_secs(3600));
    ///
    /// # fn export() -> Result<(), ()> { Err(()) }
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let limiter = RateLimiter::in_memory();
    /// let reservation = {
    ///     let caller = String::from("tenant-42");
    ///     let group = [Check::new(&EXPORTS, &caller)];
    ///     limiter.check_all(&group).await?.reservation(&group).map(|reservation| reservation.into_owned())
    /// };
    /// // The request is over; a job does the work, and a failed export does not count.
    /// let refunds = limiter.clone();
    /// let job = tokio::spawn(async move {
    ///     match (export(), reservation) {
    ///         (Err(()), Some(reservation)) => refunds.refund(reservation).await,
    ///         _ => Ok(()),
    ///     }
    /// });
    /// job.await.unwrap()?;
    /// assert_eq!(limiter.peek(&EXPORTS, "tenant-42").await?.remaining(), 10);
    /// # Ok::<(), ratelimit_core::StoreError>(())
    /// # }).unwrap();
    /// ```
    pub fn into_owned(self) -> Reservation<'static> {
        self.copied()
    }

    /// The same charges once more.
    pub(crate) fn copied<'c>(&self) -> Reservation<'c> {
        let owned =
            |charge: &Charge<'_>| charge.with(Charged::Owned(Arc::new(OwnedCheck::new(&charge.check()))));
        Reservation { charges: self.charges().map(owned).collect(), degraded: self.degraded }
    }

    /// Charges, one per state, in the order of the group. A state that occurs twice in the group has one
    /// charge with the sum of the costs.
    pub fn charges(&self) -> impl ExactSizeIterator<Item = &Charge<'a>> {
        self.charges.iter()
    }
}

/// Charge of one limit: the units that an admitted request took from one state, and how long they count.
#[derive(Clone, Debug)]
pub struct Charge<'a> {
    check: Charged<'a>,
    at: Timestamp,
    until: Timestamp,
    /// Whether an overflow count was charged, which is neither refunded nor settled.
    overflowed: bool,
}

/// Policy and partition of a charge, and as cost its units.
#[derive(Clone, Debug)]
enum Charged<'a> {
    Borrowed(Check<'a>),
    Owned(Arc<OwnedCheck>),
}

impl<'a> Charge<'a> {
    pub(crate) const fn new(check: Check<'a>, at: Timestamp, until: Timestamp) -> Self {
        Self { check: Charged::Borrowed(check), at, until, overflowed: false }
    }

    /// The charge of a turn that is given up before it is due.
    pub(crate) fn turn(check: Check<'a>, outcome: &Outcome) -> Self {
        Self::new(check, outcome.at(), outcome.counts_until())
    }

    /// Whether an overflow count was charged.
    pub(crate) const fn is_overflowed(&self) -> bool {
        self.overflowed
    }

    pub(crate) const fn with_check<'c>(&self, check: Check<'c>) -> Charge<'c> {
        self.with(Charged::Borrowed(check))
    }

    /// The same in the window of the charge, on a clock that is so many microseconds ahead.
    pub(crate) fn in_window(&self, ahead_us: i64) -> Charge<'_> {
        let [at, until] = [self.at, self.until].map(|at| at.on_clock_ahead(ahead_us));
        Charge { at, until, ..self.with_check(self.check().in_window(self.at, ahead_us)) }
    }

    const fn with<'c>(&self, check: Charged<'c>) -> Charge<'c> {
        Charge { check, at: self.at, until: self.until, overflowed: self.overflowed }
    }

    /// Digest of the state that was charged, as [`Check::digest`] at the instant of the charge.
    pub fn digest(&self, key: &[u8; 16]) -> u128 {
        self.check().digest(key, self.at)
    }

    /// Policy and partition of the charge, and as cost the charged units.
    pub fn check(&self) -> Check<'_> {
        match &self.check {
            Charged::Borrowed(check) => *check,
            Charged::Owned(check) => check.check(),
        }
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
    /// Charges of this decision, for a [refund]. `checks` must be the group of the decision. `None` if
    /// nothing was charged. A shadow limit that would deny was not charged.
    ///
    /// [refund]: crate::RateLimiter::refund
    pub fn reservation<'a>(&self, checks: &[Check<'a>]) -> Option<Reservation<'a>> {
        if !self.is_allowed() || checks.len() != self.outcomes().len() {
            return None;
        }
        let mut charges: SmallVec<[Charge<'a>; 2]> = SmallVec::new();
        let any_denies = self.outcomes().iter().any(|outcome| !outcome.fits());
        for (index, (check, outcome)) in checks.iter().zip(self.outcomes()).enumerate() {
            if check.is_uncharged() || any_denies && self.was_spared(index, checks) {
                continue;
            }
            // A state that occurs twice was charged the sum, and is refunded the sum.
            // An overflow count is not refunded: its units may be those of other callers by then.
            let units = if outcome.is_overflowed() { 0 } else { check.cost() };
            let counted = (check, outcome.at());
            let known = charges.iter_mut().find(|other| other.check().shares_count_with(other.at, counted));
            let sum = known.as_ref().map_or(units, |known| known.check().cost().saturating_add(units));
            let charge = Charge {
                overflowed: outcome.is_overflowed(),
                ..Charge::new(check.with_cost(sum), outcome.at(), outcome.counts_until())
            };
            match known {
                Some(known) => *known = charge,
                None => charges.push(charge),
            }
        }
        // A look may have been decided without the store, and the rest by it.
        let mut limits = checks.iter().zip(self.outcomes());
        let is_degraded = limits.any(|(check, outcome)| !check.is_uncharged() && outcome.is_degraded());
        (!charges.is_empty()).then(|| Reservation::new(charges, is_degraded))
    }

    /// Whether the state of the check at this index was not charged although the group passed: a shadow limit
    /// that counts there would deny.
    pub(crate) fn was_spared(&self, index: usize, checks: &[Check<'_>]) -> bool {
        let counted = (&checks[index], self.outcomes()[index].at());
        let mut limits = checks.iter().zip(self.outcomes());
        limits.any(|(other, outcome)| !outcome.fits() && other.shares_count_with(outcome.at(), counted))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::outcome::Decision;
    use crate::policy::Policy;

    fn allowed(remaining: u64, reset_after: u64) -> Outcome {
        let reset_after = Duration::from_micros(reset_after);
        Outcome::new(10, Decision::Allowed).with_remaining(remaining).with_reset_after(reset_after)
    }

    fn denied(wait: u64) -> Outcome {
        Outcome::new(10, Decision::Denied { retry_after: Some(Duration::from_micros(wait)) })
    }

    fn group<const N: usize>(outcomes: [Outcome; N]) -> GroupOutcome {
        GroupOutcome::new(Timestamp::from_micros(1_000), outcomes)
    }

    #[test]
    fn only_charges_are_reserved() {
        let policy = Policy::new("k", 10, Duration::from_secs(60));
        let checks = [Check::new(&policy, "a").with_cost(2), Check::new(&policy, "b")];
        assert!(group([denied(7), allowed(1, 60)]).reservation(&checks).is_none(), "denied");
        assert!(group([allowed(1, 60)]).reservation(&checks).is_none(), "another group");
        let both = group([allowed(1, 60), allowed(2, 70)]);
        assert!(both.reservation(&checks.map(Check::uncharged)).is_none(), "two looks");
        let one = both.reservation(&[checks[0].uncharged(), checks[1]]).unwrap();
        assert_eq!(one.charges().map(|charge| charge.check().partition()).collect::<Vec<_>>(), [b"b"]);
        let reservation = group([allowed(1, 60), allowed(2, 70)]).reservation(&checks).unwrap();
        assert!(reservation.charges().all(|charge| charge.at() == Timestamp::from_micros(1_000)));
        let charges: Vec<(u64, u64)> =
            reservation.charges().map(|charge| (charge.check().cost(), charge.until().as_micros())).collect();
        assert_eq!(charges, [(2, 1_060), (1, 1_070)]);
    }

    #[test]
    fn a_state_that_was_charged_a_sum_is_reserved_once() {
        let (policy, other) = (
            Policy::new("k", 10, Duration::from_secs(60)),
            Policy::new("other", 10, Duration::from_secs(60)),
        );
        let same_count = Policy::new("k", 99, Duration::from_secs(60));
        let checks = [
            Check::new(&policy, "a").with_cost(2),
            Check::new(&other, "a"),
            Check::new(&same_count, "a").with_cost(3),
            Check::new(&policy, "b"),
        ];
        let outcome = group([0; 4].map(|_| allowed(5, 60)));
        let reservation = outcome.reservation(&checks).unwrap();
        let charges: Vec<(&str, u64)> = reservation
            .charges()
            .map(|charge| (charge.check().policy().key(), charge.check().cost()))
            .collect();
        assert_eq!(charges, [("k", 5), ("other", 1), ("k", 1)]);
    }

    /// The limits of one group may be decided at instants on both sides of an edge.
    #[cfg(feature = "calendar")]
    #[test]
    fn each_charge_has_the_window_of_its_own_instant() {
        use crate::policy::Calendar;

        let day = |zone| Policy::builder("day").max(20).calendar(Calendar::day().in_zone(zone)).build();
        let (utc, ahead) = (day("UTC"), day("Etc/GMT-5"));
        // 19:00 in UTC is midnight five hours ahead.
        let midnight = 1_790_017_200_000_000;
        let [before, after] = [midnight - 1, midnight].map(Timestamp::from_micros);
        let [zulu, other] = [Check::new(&utc, "a").with_cost(3), Check::new(&ahead, "a").with_cost(5)];
        let charged = |checks: [Check<'_>; 2], instants: [Timestamp; 2]| {
            let outcomes = instants.map(|at| allowed(9, 60).with_at(at));
            let reservation = GroupOutcome::decided_apart(outcomes).reservation(&checks).unwrap();
            let charges: Vec<u64> = reservation.charges().map(|charge| charge.check().cost()).collect();
            charges
        };
        // Five hours ahead it is the next day already, so these are two counts.
        assert_eq!(charged([zulu, other], [before, after]), [3, 5]);
        assert_eq!(charged([other, zulu], [after, before]), [5, 3]);
        assert_eq!(charged([zulu, other], [before, before]), [8]);
        // One that would deny spares the count of its own day only.
        let [spared, other] = [zulu, other].map(|check| check.in_shadow_if(true));
        for (at, count) in [(after, Some(1)), (before, None)] {
            let outcomes = [denied(7).in_shadow().with_at(before), allowed(9, 60).in_shadow().with_at(at)];
            let reservation = GroupOutcome::decided_apart(outcomes).reservation(&[spared, other]);
            assert_eq!(reservation.map(|reservation| reservation.charges().len()), count);
        }
    }

    #[test]
    fn an_owned_reservation_has_the_same_charges() {
        let policy = Policy::new("k", 10, Duration::from_secs(60));
        let checks = [Check::new(&policy, "a").with_cost(2), Check::new(&policy, "b")];
        let reservation = group([allowed(1, 60), allowed(2, 70)]).degraded().reservation(&checks).unwrap();
        let owned = reservation.copied();
        assert!(owned.is_degraded());
        assert_eq!(owned.charges().len(), 2);
        for (left, right) in reservation.charges().zip(owned.charges()) {
            assert_eq!((left.at(), left.until()), (right.at(), right.until()));
            let (left, right) = (left.check(), right.check());
            assert_eq!((left.policy(), left.cost()), (right.policy(), right.cost()));
            assert_eq!(left.partition(), right.partition());
        }
    }

    #[test]
    fn debug_of_an_owned_reservation_does_not_show_the_caller() {
        let policy = Policy::new("k", 10, Duration::from_secs(60));
        let checks = [Check::new(&policy, "AAAA")];
        let shown = format!("{:?}", group([allowed(1, 60)]).reservation(&checks).unwrap().into_owned());
        assert!(!shown.contains("AAAA") && !shown.contains("65, 65"), "{shown}");
    }
}
