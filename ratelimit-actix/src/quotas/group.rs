//! Limits of one request that were checked together.

use std::iter::zip;

use actix_web::http::StatusCode;
use ratelimit_core::__private_0_1::{PrivateLimiter as _, decided_apart, help, is_first, limiter_id};
use ratelimit_core::{Check, GroupOutcome, Outcome, RateLimiter, Reservation, SettleError, StoreError};
use smallvec::SmallVec;

use super::quota::{Closed, Correction, Quota};

/// The quotas of limits that were checked together.
pub(super) type QuotaGroup = SmallVec<[Quota; 1]>;

/// What follows a response, for each limit of a group.
pub(super) type Corrections = SmallVec<[Option<Correction>; 2]>;

/// Some of these quotas.
pub(super) type Indices = SmallVec<[usize; 2]>;

/// A group of limits, and the limiter that decided about it.
#[derive(Clone, Debug)]
pub(super) struct DecidedGroup {
    pub(super) limiter: RateLimiter,
    pub(super) quotas: QuotaGroup,
}

impl DecidedGroup {
    /// Indices of the rates that charge before the response. A request takes one slot of a
    /// concurrency limit, whatever it is charged.
    pub(super) fn rates(&self) -> Indices {
        (0..self.quotas.len()).filter(|&index| self.quotas[index].is_charged()).collect()
    }

    /// Splits limits into those of the first one's caller, and the others.
    pub(super) fn of_first_caller(&self, limits: &Indices) -> (Indices, Indices) {
        let caller = |index: usize| self.quotas[index].limit.check().partition();
        limits.iter().copied().partition(|&index| caller(index) == caller(limits[0]))
    }

    /// Charges these limits as many of `units` as are left.
    pub(super) async fn charge(
        &self,
        limits: &Indices,
        units: u64,
    ) -> Result<(u64, GroupOutcome), StoreError> {
        let checks: SmallVec<[Check<'_>; 2]> =
            limits.iter().map(|&index| self.quotas[index].limit.check()).collect();
        self.limiter.check_up_to_all(&checks, units).await
    }

    /// Closes the limits that do not count a response with this status, so that nothing settles them, too.
    /// Returns a copy of the group, and what follows the response, if anything does. A limit that the handler
    /// has settled stays as it is settled.
    pub(super) fn close_uncounted(&mut self, status: StatusCode) -> Option<(Self, Corrections)> {
        let close = |quota: &mut Quota| {
            let correction = quota.correction(status)?;
            let is_open = correction == Correction::Charge || quota.close(Closed::Refunded).is_ok();
            is_open.then_some(correction)
        };
        let corrections: Corrections = self.quotas.iter_mut().map(close).collect();
        corrections.iter().any(Option::is_some).then(|| (self.clone(), corrections))
    }

    /// Charges the limits that count the response, each by itself. Returns the indices of those that were
    /// decided, and their outcomes: a limit may be full by now.
    pub(super) async fn charge_counted(&self, corrections: &[Option<Correction>]) -> Vec<(usize, Outcome)> {
        let is_charged = |index: &usize| corrections[*index] == Some(Correction::Charge);
        let indices: SmallVec<[usize; 2]> = (0..corrections.len()).filter(is_charged).collect();
        let checks = indices.iter().map(|index| self.quotas[*index].limit.check());
        let outcomes = self.limiter.charge_each(&checks.collect::<SmallVec<[_; 2]>>()).await;
        zip(indices, outcomes).filter_map(|(index, outcome)| Some((index, outcome?))).collect()
    }

    /// Refunds the limits that do not count the response. Returns whether all of it was refunded.
    ///
    /// Makes one attempt. The store finishes a refund that misses its deadline; the request does not wait.
    pub(super) async fn refund(&self, corrections: &[Option<Correction>]) -> bool {
        let refunded: SmallVec<[bool; 2]> =
            corrections.iter().map(|correction| *correction == Some(Correction::Refund)).collect();
        if !refunded.contains(&true) {
            return false;
        }
        let most_charges = self.quotas.iter().map(|quota| quota.charges().len()).max().unwrap_or_default();
        // The latest charge counts for longest, so it comes first.
        let numbers = (0..most_charges).rev();
        let reservations: SmallVec<[Reservation<'_>; 1]> =
            numbers.filter_map(|number| self.reservation(number, &refunded)).collect();
        let mut is_refunded = !reservations.is_empty();
        for reservation in reservations {
            // The limiter logs failures. One does not keep the others from being sent.
            is_refunded &= self.limiter.refund(reservation).await.is_ok();
        }
        is_refunded
    }

    /// Settles the limit of a group of one, so that the sum of its charges is `actual`: one charge after
    /// another, until one fails.
    pub(super) async fn settle(&self, actual: u64) -> Result<(), SettleError> {
        let [quota] = &*self.quotas else { return Ok(()) };
        // A shadow limit that would deny was charged nothing, so it has no reservation.
        let reservation =
            |(number, outcome): (usize, &Outcome)| Some((self.reservation(number, &[true])?, outcome.cost()));
        let charged: SmallVec<[(Reservation<'_>, u64); 1]> =
            quota.charges().iter().enumerate().filter_map(reservation).collect();
        let sum = charged.iter().fold(0_u64, |sum, (_, cost)| sum.saturating_add(*cost));
        if let Some(more) = actual.checked_sub(sum) {
            let Some((first, cost)) = charged.into_iter().next() else { return Ok(()) };
            return self.limiter.settle(first, cost + more).await;
        }
        let mut surplus = sum.saturating_sub(actual);
        // The latest charge counts for longest, so it is given back first.
        for (reservation, cost) in charged.into_iter().rev() {
            let given_back = surplus.min(cost);
            surplus -= given_back;
            self.limiter.settle(reservation, cost - given_back).await?;
        }
        Ok(())
    }

    /// Notes what is left.
    pub(super) fn set_left(&mut self, left: &GroupOutcome) {
        for (quota, left) in zip(&mut self.quotas, left.outcomes()) {
            quota.set_left(left.clone());
        }
    }

    /// What is left now. `None` if that is unknown: the store does not answer, or only one of this and the
    /// decision before `was_degraded`. What the local fallback counts says nothing about the store.
    pub(super) async fn peek(&self, was_degraded: bool) -> Option<GroupOutcome> {
        let peeks = self.quotas.iter().map(|quota| quota.limit.check().with_cost(0));
        let left = self.limiter.peek_all(&peeks.collect::<SmallVec<[_; 2]>>()).await.ok()?;
        (left.is_degraded() == was_degraded).then_some(left)
    }

    /// The charges with this number of the limits for which `refunded` is true.
    fn reservation(&self, number: usize, refunded: &[bool]) -> Option<Reservation<'_>> {
        // A reservation covers the whole group. Limits that stay charged take part with 0 units.
        let charged = self.quotas.iter().zip(refunded).filter_map(|(quota, &refunded)| {
            let outcome = quota.charges().get(number)?;
            let check = quota.limit.first_check();
            Some((check.with_cost(if refunded { outcome.cost() } else { 0 }), outcome.clone()))
        });
        let (checks, outcomes): (SmallVec<[Check<'_>; 2]>, SmallVec<[Outcome; 1]>) = charged.unzip();
        // Each refund is searched at the instant of its charge, which in a cluster is that of its node.
        decided_apart(outcomes).reservation(&checks)
    }

    /// Logs each limit whose count an `earlier` group has charged, once for each pair of places in the
    /// source.
    pub(super) fn warn_about_second_charge(&self, earlier: &[Self]) {
        let charged =
            earlier.iter().filter(|earlier| limiter_id(&earlier.limiter) == limiter_id(&self.limiter));
        for outer in charged.flat_map(|earlier| &earlier.quotas) {
            for inner in self.quotas.iter().filter(|inner| inner.shares_count_with(outer)) {
                let places = (outer.limit.written.place, inner.limit.written.place);
                if is_first("charged-twice", places) {
                    tracing::warn!(
                        policy = inner.policy().name(),
                        outer = %places.0,
                        inner = %places.1,
                        help = help("charged-twice"),
                        "one request is charged twice in one count, by two layers of limits; remove one of the limits, or give it another key"
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratelimit_core::{Decision, Policy, Timestamp};

    use super::*;
    use crate::applied_limit::AppliedLimit;

    #[test]
    fn each_charge_is_refunded_at_the_instant_of_each_limit() {
        let outcome = |cost, at| {
            let outcome = Outcome::new(10, Decision::Allowed).with_cost(cost);
            GroupOutcome::new(Timestamp::from_micros(at), [outcome]).outcomes()[0].clone()
        };
        // Each limit is on another node: the first charge, and two of the handler.
        let quota = |key: &'static str, charges: [(u64, u64); 3]| {
            let policy = Policy::new(key, 10, Duration::from_secs(60));
            let [first, second, third] = charges.map(|(cost, at)| outcome(cost, at));
            let mut quota = Quota::new(AppliedLimit::of(&Check::new(&policy, "caller")), first);
            quota.add_charge(second);
            quota.add_charge(third);
            quota
        };
        let quotas = vec![quota("a", [(1, 10), (2, 20), (3, 30)]), quota("b", [(1, 15), (2, 25), (3, 29)])];
        let group = DecidedGroup { limiter: RateLimiter::in_memory(), quotas: quotas.into() };
        let charges = |refunded: [bool; 2]| -> Vec<Vec<(u64, u64)>> {
            let charges = |reservation: Reservation<'_>| {
                reservation.charges().map(|charge| (charge.check().cost(), charge.at().as_micros())).collect()
            };
            (0..3).rev().filter_map(|number| group.reservation(number, &refunded)).map(charges).collect()
        };
        assert_eq!(charges([true, true]), [[(3, 30), (3, 29)], [(2, 20), (2, 25)], [(1, 10), (1, 15)]]);
        assert_eq!(charges([true, false]), [[(3, 30), (0, 29)], [(2, 20), (0, 25)], [(1, 10), (0, 15)]]);
    }
}
