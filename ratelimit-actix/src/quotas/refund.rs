//! Refunds after the response, for limits that count only some responses.

use actix_web::http::StatusCode;
use ratelimit_core::__private_0_1::decided_apart;
use ratelimit_core::{Check, GroupOutcome, Outcome, Reservation};
use smallvec::SmallVec;

use super::quota::{Closed, Quota, told};
use super::{DecidedGroup, Quotas};

impl Quotas {
    /// Refunds the limits of the last group that do not count a response with this status. Returns whether the client sees other
    /// quotas then: it does not see those of shadow limits.
    ///
    /// Makes one attempt, within the deadline of the request. A refund that misses the deadline goes on without the request,
    /// and the client sees its quota as charged.
    pub(crate) async fn refund(&self, status: StatusCode) -> bool {
        let closed =
            self.decided.borrow_mut().last_mut().map(|last| (last.close_uncounted(status), last.clone()));
        let Some((refunded, group)) = closed else { return false };
        let reservations = reservations(&group.quotas, &refunded);
        if reservations.is_empty() {
            return false;
        }
        let mut is_refunded = true;
        for reservation in reservations {
            // The limiter logs failures. One that misses the deadline does not keep the others from being sent.
            let refund = self.deadline.run(&group.limiter, async |limiter| limiter.refund(reservation).await);
            is_refunded &= refund.await.is_ok();
        }
        if !is_refunded {
            return false;
        }
        let peeks: SmallVec<[Check<'_>; 2]> =
            group.quotas.iter().map(|quota| quota.check().with_cost(0)).collect();
        let left = self.deadline.run(&group.limiter, async |limiter| limiter.peek_all(&peeks).await).await;
        // What the local fallback counts says nothing about what the store holds.
        let was_degraded = group.quotas.iter().any(Quota::was_degraded);
        let is_same_store = |left: &GroupOutcome| left.is_degraded() == was_degraded;
        self.replace_last(left.ok().filter(is_same_store).as_ref());
        !told(&group.quotas).is_empty()
    }
}

impl DecidedGroup {
    /// Closes the limits that do not count a response with this status, so that nothing settles them, too. Tells for each limit
    /// whether it is to be refunded. One that the handler has settled stays as it is settled.
    fn close_uncounted(&mut self, status: StatusCode) -> SmallVec<[bool; 2]> {
        let close = |quota: &mut Quota| !quota.counts(status) && quota.close(Closed::Refunded).is_ok();
        self.quotas.iter_mut().map(close).collect()
    }
}

/// The charges of the limits that are to be refunded. The latest counts for longest, so it comes first.
fn reservations<'q>(quotas: &'q [Quota], refunded: &[bool]) -> SmallVec<[Reservation<'q>; 1]> {
    if !refunded.contains(&true) {
        return SmallVec::new();
    }
    let reservation = |number: usize| {
        // A reservation covers the whole group. Limits that stay charged take part with 0 units.
        let charged = quotas.iter().zip(refunded).filter_map(|(quota, &refunded)| {
            let outcome = quota.charges().nth(number)?;
            Some((quota.check().with_cost(if refunded { outcome.cost() } else { 0 }), outcome.clone()))
        });
        let (checks, outcomes): (SmallVec<[Check<'q>; 2]>, SmallVec<[Outcome; 2]>) = charged.unzip();
        // Each refund is searched at the instant of its charge, which in a cluster is that of its node.
        decided_apart(outcomes).reservation(&checks)
    };
    let number_of_charges = quotas.iter().map(|quota| quota.charges().count()).max().unwrap_or_default();
    (0..number_of_charges).rev().filter_map(reservation).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratelimit_core::{Decision, Policy, Timestamp};

    use super::super::AppliedLimit;
    use super::*;

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
        let quotas = [quota("a", [(1, 10), (2, 20), (3, 30)]), quota("b", [(1, 15), (2, 25), (3, 29)])];
        let charges = |refunded: [bool; 2]| -> Vec<Vec<(u64, u64)>> {
            let charges = |reservation: &Reservation<'_>| {
                reservation.charges().map(|charge| (charge.check().cost(), charge.at().as_micros())).collect()
            };
            reservations(&quotas, &refunded).iter().map(charges).collect()
        };
        assert_eq!(charges([true, true]), [[(3, 30), (3, 29)], [(2, 20), (2, 25)], [(1, 10), (1, 15)]]);
        assert_eq!(charges([true, false]), [[(3, 30), (0, 29)], [(2, 20), (0, 25)], [(1, 10), (0, 15)]]);
        assert!(charges([false, false]).is_empty());
    }
}
