//! Refunds after the response, for limits that count only some responses.

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use ratelimit_core::__private_0_1::decided_apart;
use ratelimit_core::{Check, GroupOutcome, Outcome, Reservation};
use smallvec::SmallVec;

use super::count::Count;
use crate::caller::Caller;
use crate::quotas::nearest_limiter;
use crate::quotas::request_deadline::run_within;
use crate::quotas::{ChargeOutcomes, PolicyRef, close_for_refund};

/// A limit with the values that apply to one request.
pub(crate) struct EffectiveLimit {
    pub(crate) policy: PolicyRef,
    pub(crate) count: &'static Count,
    pub(crate) caller: Caller,
    pub(crate) cost: u64,
}

impl EffectiveLimit {
    pub(crate) fn check(&self) -> Check<'_> {
        Check::new(self.policy.policy(), self.caller.partition().unwrap_or_default()).with_cost(self.cost)
    }
}

/// What a request was charged, kept until the status of its response is known.
pub(crate) struct Charge {
    limits: SmallVec<[EffectiveLimit; 2]>,
    outcome: GroupOutcome,
}

/// What became of a charge.
pub(crate) enum RefundResult {
    /// Nothing was refunded: the response counts, or the refund failed.
    Unchanged,
    /// Units were refunded. With what is left now, if the store reported it in time.
    Refunded(Option<GroupOutcome>),
}

impl Charge {
    /// `None` if every response counts under all `limits`.
    pub(crate) fn new(limits: SmallVec<[EffectiveLimit; 2]>, outcome: GroupOutcome) -> Option<Box<Self>> {
        let may_refund = limits.iter().any(|limit| limit.count.may_refund());
        may_refund.then(|| Box::new(Self { limits, outcome }))
    }

    /// Whether the client sees a quota of these limits. It does not see those of shadow limits.
    pub(crate) fn is_told(&self) -> bool {
        self.outcome.outcomes().iter().any(|outcome| !outcome.is_shadow())
    }

    /// Refunds the limits that do not count a response with this status.
    ///
    /// Makes one attempt, within the deadline of the request. A refund that misses the deadline goes on without the request,
    /// and the client sees its quota as charged.
    pub(crate) async fn refund(self, req: &HttpRequest, status: StatusCode) -> RefundResult {
        let counts = |limit: &EffectiveLimit| limit.count.includes(status);
        if self.limits.iter().all(counts) {
            return RefundResult::Unchanged;
        }
        // A limit that the handler has settled stays as it is settled.
        let refunded = close_for_refund(req, self.limits.iter().map(|limit| !counts(limit)));
        if refunded.iter().all(Option::is_none) {
            return RefundResult::Unchanged;
        }
        // A reservation covers the whole group. Limits that stay charged take part with 0 units.
        let refunds: SmallVec<[Check<'_>; 2]> = self
            .limits
            .iter()
            .zip(&refunded)
            .map(
                |(limit, refunded)| {
                    if refunded.is_some() { limit.check() } else { limit.check().with_cost(0) }
                },
            )
            .collect();
        let mut reservations = further_charges(&refunds, &refunded);
        reservations.extend(self.outcome.reservation(&refunds));
        if reservations.is_empty() {
            return RefundResult::Unchanged;
        }
        let limiter = nearest_limiter::nearest(req);
        let peeks: SmallVec<[Check<'_>; 2]> = refunds.iter().map(|check| check.with_cost(0)).collect();
        let mut is_refunded = true;
        for reservation in reservations {
            // The limiter logs failures. One that misses the deadline does not keep the others from being sent.
            let refund = run_within(req, limiter, async |limiter| limiter.refund(reservation).await);
            is_refunded &= refund.await.is_ok();
        }
        if !is_refunded {
            return RefundResult::Unchanged;
        }
        let left = run_within(req, limiter, async |limiter| limiter.peek_all(&peeks).await).await;
        // What the local fallback counts says nothing about what the store holds.
        let is_same_store = |left: &GroupOutcome| left.is_degraded() == self.outcome.is_degraded();
        RefundResult::Refunded(left.ok().filter(is_same_store))
    }
}

/// What the handler has charged after the first charge of the group. The latest counts for longest, so it comes first.
fn further_charges<'a>(
    checks: &[Check<'a>],
    refunded: &[Option<ChargeOutcomes>],
) -> SmallVec<[Reservation<'a>; 1]> {
    let number_of_charges = refunded.iter().flatten().map(SmallVec::len).max().unwrap_or_default();
    let reservation = |number: usize| {
        // Each charge of a handler is a charge of all limits of the group.
        let charged = checks.iter().zip(refunded).filter_map(|(check, outcomes)| {
            let outcome = outcomes.as_ref()?.get(number)?;
            Some((check.with_cost(outcome.cost()), outcome.clone()))
        });
        let (checks, outcomes): (SmallVec<[Check<'a>; 2]>, SmallVec<[Outcome; 2]>) = charged.unzip();
        // Each refund is searched at the instant of its charge, which in a cluster is that of its node.
        decided_apart(outcomes).reservation(&checks)
    };
    (1..number_of_charges).rev().filter_map(reservation).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratelimit_core::{Decision, Policy, Timestamp};

    use super::*;

    #[test]
    fn a_further_charge_is_refunded_at_the_instant_of_each_limit() {
        let policies = ["a", "b"].map(|key| Policy::new(key, 10, Duration::from_secs(60)));
        let checks = policies.each_ref().map(|policy| Check::new(policy, "caller"));
        let outcome = |cost, at| {
            let outcome = Outcome::new(10, Decision::Allowed).with_cost(cost);
            GroupOutcome::new(Timestamp::from_micros(at), [outcome]).outcomes()[0].clone()
        };
        // Each limit is on another node: the first charge, and two of the handler.
        let refunded = [
            Some(ChargeOutcomes::from_iter([outcome(1, 10), outcome(2, 20), outcome(3, 30)])),
            Some(ChargeOutcomes::from_iter([outcome(1, 15), outcome(2, 25), outcome(3, 29)])),
        ];
        let charges: Vec<Vec<(u64, u64)>> = further_charges(&checks, &refunded)
            .iter()
            .map(|reservation| {
                let charges = reservation.charges();
                charges.map(|charge| (charge.check().cost(), charge.at().as_micros())).collect()
            })
            .collect();
        assert_eq!(charges, [[(3, 30), (3, 29)], [(2, 20), (2, 25)]]);
    }
}
