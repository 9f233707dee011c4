//! What the extensions of a request hold of its limits, from the decision to the refund after the response.

use std::future::{Ready, ready};
use std::mem;

use actix_web::dev::{Extensions, Payload};
use actix_web::http::StatusCode;
use actix_web::{FromRequest, HttpMessage, HttpRequest};
use ratelimit_core::__private_0_1::{decided_apart, help, is_first, limiter_id};
use ratelimit_core::{Check, GroupOutcome, Outcome, Reservation};
use smallvec::SmallVec;

use super::quota::{Closed, Quota, shown};
use super::{DecidedGroup, LeftOut, QuotaGroup, Quotas};
use crate::applied_limit::AppliedLimits;
use crate::request::nearest_limiter;

#[allow(clippy::large_enum_variant, reason = "extensions are boxed, and the large variant is the usual one")]
enum StoredQuotas {
    /// One decision that nothing has read yet. Most requests end like this: without an allocation for
    /// sharing, and without touching the limiter's reference count, which all threads share.
    Unshared(QuotaGroup),
    /// Middleware or an argument of the handler holds them, too.
    Shared(Quotas),
}

impl Quotas {
    /// Those of a request, if any limit was checked. From then on, they are shared.
    ///
    /// Only a handler stores them unshared. Nothing wraps the request after that, so the nearest limiter is
    /// still the one that decided.
    pub(crate) fn of(req: &HttpRequest) -> Option<Self> {
        shared(req, &mut req.extensions_mut())
    }

    /// Adds a decision of the nearest limiter about these limits.
    #[inline]
    pub(crate) fn add(req: &HttpRequest, limits: &mut AppliedLimits, outcome: &GroupOutcome) {
        let quotas = group(limits, outcome);
        let mut extensions = req.extensions_mut();
        match shared(req, &mut extensions) {
            Some(shared) => {
                let decided = decided(req, quotas);
                if outcome.is_allowed() {
                    warn_about_second_charge(&shared.decided.borrow(), &decided);
                }
                shared.push(decided);
            }
            None => drop(extensions.insert(StoredQuotas::Unshared(quotas))),
        }
    }
}

/// Logs a limit of `group` whose count an `earlier` group has charged, once for each pair of places in the
/// source.
///
/// Not called for a request with one layer of limits.
fn warn_about_second_charge(earlier: &[DecidedGroup], group: &DecidedGroup) {
    let of_limiter = limiter_id(&group.limiter);
    let charged = earlier.iter().filter(|earlier| limiter_id(&earlier.limiter) == of_limiter);
    for outer in charged.flat_map(|earlier| &earlier.quotas) {
        for inner in group.quotas.iter().filter(|inner| inner.shares_count_with(outer)) {
            let places = (outer.place(), inner.place());
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

/// Calls `read` with the quotas of a request under enforced limits, if any limit was checked. Does not share
/// them.
pub(crate) fn with_quotas<R>(req: &HttpRequest, read: impl FnOnce(&[&Quota]) -> R) -> Option<R> {
    match req.extensions().get::<StoredQuotas>()? {
        StoredQuotas::Unshared(group) => Some(match &group[..] {
            [quota] if !quota.is_shadow() => read(&[quota]),
            group => read(&shown(group)),
        }),
        StoredQuotas::Shared(quotas) => Some(quotas.with(read)),
    }
}

/// Whether a limit of the handler does not count a response with this status. Does not share the quotas.
pub(crate) fn has_uncounted(req: &HttpRequest, status: StatusCode) -> bool {
    let any = |quotas: &[Quota]| quotas.iter().any(|quota| !quota.counts(status));
    match req.extensions().get::<StoredQuotas>() {
        Some(StoredQuotas::Unshared(group)) => any(group),
        Some(StoredQuotas::Shared(quotas)) => {
            let group = quotas.group_of_attributes();
            group.is_some_and(|group| any(&quotas.decided.borrow()[group].quotas))
        }
        None => false,
    }
}

/// How many groups of limits were decided about a request so far. Does not share the quotas.
pub(crate) fn number_of_groups(req: &HttpRequest) -> usize {
    match req.extensions().get::<StoredQuotas>() {
        Some(StoredQuotas::Unshared(_)) => 1,
        Some(StoredQuotas::Shared(quotas)) => quotas.decided.borrow().len(),
        None => 0,
    }
}

/// A copy of each quota of a request, also under shadow limits. Does not share them.
pub(crate) fn all_quotas(req: &HttpRequest) -> Vec<Quota> {
    match req.extensions().get::<StoredQuotas>() {
        Some(StoredQuotas::Unshared(group)) => group.to_vec(),
        Some(StoredQuotas::Shared(quotas)) => quotas.to_vec(),
        None => Vec::new(),
    }
}

fn shared(req: &HttpRequest, extensions: &mut Extensions) -> Option<Quotas> {
    if let StoredQuotas::Shared(quotas) = extensions.get::<StoredQuotas>()? {
        return Some(quotas.clone());
    }
    let quotas = Quotas::default();
    let stored = extensions.get_mut::<StoredQuotas>()?;
    if let StoredQuotas::Unshared(group) = mem::replace(stored, StoredQuotas::Shared(quotas.clone())) {
        quotas.push(decided(req, group));
    }
    Some(quotas)
}

fn decided(req: &HttpRequest, quotas: QuotaGroup) -> DecidedGroup {
    DecidedGroup { limiter: nearest_limiter(req).clone(), quotas }
}

#[inline]
fn group(limits: &mut AppliedLimits, outcome: &GroupOutcome) -> QuotaGroup {
    if let [outcome] = outcome.outcomes()
        && let Some(limit) = limits.pop()
    {
        // Built in place: a quota is large, and collecting would move it once more.
        return QuotaGroup::from_buf([Quota::new(limit, outcome.clone())]);
    }
    let parts = limits.drain(..).zip(outcome.outcomes());
    parts.map(|(limit, outcome)| Quota::new(limit, outcome.clone())).collect()
}

impl FromRequest for Quotas {
    type Error = actix_web::Error;
    type Future = Ready<Result<Self, Self::Error>>;

    fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
        let mut quotas = Self::of(req).unwrap_or_default();
        quotas.left_out = LeftOut::of(&req.extensions());
        ready(Ok(quotas))
    }
}

impl Quotas {
    /// Refunds the limits of a group that do not count a response with this status. Returns whether the
    /// client sees other quotas then: it does not see those of shadow limits.
    ///
    /// Makes one attempt. A refund that misses its deadline goes on without the request, and the client sees
    /// its quota as charged.
    pub(crate) async fn refund(&self, position: usize, status: StatusCode) -> bool {
        let Some((refunded, group)) = self.close_uncounted(position, status) else { return false };
        let reservations = reservations(&group.quotas, &refunded);
        if reservations.is_empty() {
            return false;
        }
        let mut is_refunded = true;
        for reservation in reservations {
            // The limiter logs failures. One does not keep the others from being sent.
            is_refunded &= group.limiter.refund(reservation).await.is_ok();
        }
        if !is_refunded {
            return false;
        }
        let peeks: SmallVec<[Check<'_>; 2]> =
            group.quotas.iter().map(|quota| quota.check().with_cost(0)).collect();
        let left = group.limiter.peek_all(&peeks).await;
        // What the local fallback counts says nothing about what the store holds.
        let was_degraded = group.quotas.iter().any(Quota::was_degraded);
        let is_same_store = |left: &GroupOutcome| left.is_degraded() == was_degraded;
        self.replace(position, left.ok().filter(is_same_store).as_ref());
        !shown(&group.quotas).is_empty()
    }

    /// The group at this position and which of its limits do not count a response with this status, if there
    /// is one.
    fn close_uncounted(
        &self,
        position: usize,
        status: StatusCode,
    ) -> Option<(SmallVec<[bool; 2]>, DecidedGroup)> {
        let mut decided = self.decided.borrow_mut();
        let group = decided.get_mut(position)?;
        let is_uncounted = group.quotas.iter().any(|quota| !quota.counts(status));
        is_uncounted.then(|| (group.close_uncounted(status), group.clone()))
    }
}

impl DecidedGroup {
    /// Closes the limits that do not count a response with this status, so that nothing settles them, too.
    /// Tells for each limit whether it is to be refunded. One that the handler has settled stays as it is
    /// settled.
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
            let outcome = quota.charges().get(number)?;
            Some((quota.check().with_cost(if refunded { outcome.cost() } else { 0 }), outcome.clone()))
        });
        let (checks, outcomes): (SmallVec<[Check<'q>; 2]>, SmallVec<[Outcome; 2]>) = charged.unzip();
        // Each refund is searched at the instant of its charge, which in a cluster is that of its node.
        decided_apart(outcomes).reservation(&checks)
    };
    let number_of_charges = quotas.iter().map(|quota| quota.charges().len()).max().unwrap_or_default();
    (0..number_of_charges).rev().filter_map(reservation).collect()
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
