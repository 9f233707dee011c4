//! The extension of a request that holds its quotas. They are shared only when something besides the handler reads them.

use std::future::{Ready, ready};
use std::mem;

use actix_web::dev::{Extensions, Payload};
use actix_web::http::StatusCode;
use actix_web::{FromRequest, HttpMessage, HttpRequest};
use ratelimit_core::GroupOutcome;

use super::applied_limit::AppliedLimits;
use super::left_out::LeftOut;
use super::quota::{Quota, told};
use super::{DecidedGroup, QuotaGroup, Quotas};
use crate::request::deadline::RequestDeadline;
use crate::request::nearest_limiter;

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

    /// Adds a decision of the nearest limiter about these limits.
    #[inline]
    pub(crate) fn add(req: &HttpRequest, limits: &mut AppliedLimits, outcome: &GroupOutcome) {
        let quotas = group(limits, outcome);
        let mut extensions = req.extensions_mut();
        match shared(req, &mut extensions) {
            Some(shared) => shared.push(decided(req, quotas)),
            None => drop(extensions.insert(StoredQuotas::Unshared(quotas))),
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

/// Whether a limit of the last decision does not count a response with this status. Does not share the quotas.
pub(crate) fn has_uncounted(req: &HttpRequest, status: StatusCode) -> bool {
    let any = |quotas: &[Quota]| quotas.iter().any(|quota| !quota.counts(status));
    match req.extensions().get::<StoredQuotas>() {
        Some(StoredQuotas::Unshared(group)) => any(group),
        Some(StoredQuotas::Shared(quotas)) => {
            quotas.decided.borrow().last().is_some_and(|last| any(&last.quotas))
        }
        None => false,
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

#[inline]
fn group(limits: &mut AppliedLimits, outcome: &GroupOutcome) -> QuotaGroup {
    match (limits.len(), outcome.outcomes()) {
        // Built in place: a quota is large, and collecting would move it once more.
        (1, [outcome]) => limits.pop().into_iter().map(|limit| Quota::new(limit, outcome.clone())).collect(),
        (_, outcomes) => {
            let parts = limits.drain(..).zip(outcomes);
            parts.map(|(limit, outcome)| Quota::new(limit, outcome.clone())).collect()
        }
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
