//! The extension of a request that holds its quotas. They are shared only when something besides the handler reads them.

use std::future::{Ready, ready};
use std::mem;

use actix_web::dev::{Extensions, Payload};
use actix_web::{FromRequest, HttpMessage, HttpRequest};
use ratelimit_core::{Check, GroupOutcome};
use smallvec::SmallVec;

use super::left_out::LeftOut;
use super::nearest_limiter;
use super::policy_ref::PolicyRef;
use super::quota::{ChargeOutcomes, Closed, Quota, told};
use super::request_deadline::RequestDeadline;
use super::{DecidedGroup, QuotaGroup, Quotas};

#[allow(clippy::large_enum_variant, reason = "extensions are boxed, and the large variant is the usual one")]
enum StoredQuotas {
    /// One decision that nothing has read yet. Most requests end like this: without an allocation for sharing, and without
    /// touching the limiter's reference count, which all threads share.
    Unshared(QuotaGroup),
    /// Middleware or an argument of the handler holds them, too.
    Shared(Quotas),
}

impl Quotas {
    /// Those of a request, if any limit was checked. From then on, they are shared.
    ///
    /// Only a handler stores them unshared. Nothing wraps the request after that, so the nearest limiter is still the one that
    /// decided.
    pub(crate) fn of(req: &HttpRequest) -> Option<Self> {
        shared(req, &mut req.extensions_mut())
    }

    /// Adds a decision of the nearest limiter.
    pub(crate) fn add(
        req: &HttpRequest,
        policies: impl Iterator<Item = PolicyRef>,
        checks: &[Check<'_>],
        outcome: &GroupOutcome,
    ) {
        let group = group(policies, checks, outcome);
        let mut extensions = req.extensions_mut();
        match shared(req, &mut extensions) {
            Some(quotas) => quotas.push(decided(req, group)),
            None => drop(extensions.insert(StoredQuotas::Unshared(group))),
        }
    }
}

/// Calls `read` with the quotas of a request under enforced limits, if any limit was checked. Does not share them.
pub(crate) fn with_quotas<R>(req: &HttpRequest, read: impl FnOnce(&[&Quota]) -> R) -> Option<R> {
    match req.extensions().get::<StoredQuotas>()? {
        StoredQuotas::Unshared(group) => Some(match &group[..] {
            [quota] if !quota.is_shadow() => read(&[quota]),
            group => read(&told(group)),
        }),
        StoredQuotas::Shared(quotas) => Some(quotas.with(read)),
    }
}

/// Closes the charges of the last group that are to be refunded, so that nothing settles them, too. Returns the outcomes of
/// those that can be refunded: `None` for a limit that is settled, or not to be refunded.
pub(crate) fn close_for_refund(
    req: &HttpRequest,
    refunds: impl Iterator<Item = bool>,
) -> SmallVec<[Option<ChargeOutcomes>; 2]> {
    let close = |quotas: &mut [Quota]| {
        let close = |(quota, refund): (&mut Quota, bool)| {
            if refund { quota.close(Closed::Refunded).ok() } else { None }
        };
        quotas.iter_mut().zip(refunds).map(close).collect()
    };
    match req.extensions_mut().get_mut::<StoredQuotas>() {
        Some(StoredQuotas::Unshared(group)) => close(group),
        Some(StoredQuotas::Shared(quotas)) => {
            let mut decided = quotas.decided.borrow_mut();
            decided.last_mut().map_or_else(SmallVec::new, |last| close(&mut last.quotas))
        }
        None => SmallVec::new(),
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
    let quotas = Quotas::new(RequestDeadline::of(extensions));
    let stored = extensions.get_mut::<StoredQuotas>()?;
    if let StoredQuotas::Unshared(group) = mem::replace(stored, StoredQuotas::Shared(quotas.clone())) {
        quotas.push(decided(req, group));
    }
    Some(quotas)
}

fn decided(req: &HttpRequest, quotas: QuotaGroup) -> DecidedGroup {
    DecidedGroup { limiter: nearest_limiter::nearest(req).clone(), quotas }
}

fn group(
    policies: impl Iterator<Item = PolicyRef>,
    checks: &[Check<'_>],
    outcome: &GroupOutcome,
) -> QuotaGroup {
    let parts = policies.zip(checks).zip(outcome.outcomes());
    let mut quotas = parts.map(|((policy, check), outcome)| Quota::new(policy, check, outcome.clone()));
    match (checks, quotas.next()) {
        // Built in place: a quota is large, and collecting would move it once more.
        ([_], Some(quota)) => SmallVec::from_buf([quota]),
        (_, first) => first.into_iter().chain(quotas).collect(),
    }
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
