//! What the extensions of a request keep of its limits, from the decision to the refund after the response.

use std::future::{Ready, ready};
use std::mem;

use actix_web::dev::{Extensions, Payload};
use actix_web::http::StatusCode;
use actix_web::{FromRequest, HttpMessage, HttpRequest};
use ratelimit_core::GroupOutcome;

use super::group::{DecidedGroup, QuotaGroup};
use super::quota::Quota;
use super::{Quotas, group_of_attributes};
use crate::applied_limit::{AppliedLimits, LimitRef};
use crate::request::nearest_limiter;

#[allow(clippy::large_enum_variant, reason = "extensions are boxed, and the large variant is the usual one")]
enum Stored {
    /// One decision that nothing has read yet. Most requests end like this: without an allocation for
    /// sharing, and without touching the limiter's reference count, which all threads share.
    Unshared(QuotaGroup),
    /// Middleware or an argument of the handler has them, too, or a limit was left out.
    Shared(Quotas),
}

impl Quotas {
    /// The quotas of a request, if any limit was checked. From then on, they are shared.
    pub(crate) fn of(req: &HttpRequest) -> Option<Self> {
        shared(req, &mut req.extensions_mut()).filter(|quotas| quotas.last_group().is_some())
    }

    /// The quotas of a request, which are shared from now on, also if no limit was checked yet.
    fn of_any(req: &HttpRequest) -> Self {
        let mut extensions = req.extensions_mut();
        shared(req, &mut extensions).unwrap_or_else(|| {
            let quotas = Self::default();
            extensions.insert(Stored::Shared(quotas.clone()));
            quotas
        })
    }

    /// Notes that no limit is checked.
    #[cold]
    pub(crate) fn leave_all_out(req: &HttpRequest) {
        Self::of_any(req).decisions.borrow_mut().left_out.all = true;
    }

    /// Notes that one limit is not checked.
    #[cold]
    pub(crate) fn leave_out(req: &HttpRequest, limit: LimitRef) {
        Self::of_any(req).decisions.borrow_mut().left_out.limits.push(limit);
    }

    /// Adds a decision of the nearest limiter about these limits.
    #[inline]
    pub(crate) fn add(req: &HttpRequest, limits: &mut AppliedLimits, outcome: &GroupOutcome) {
        let quotas = group(limits, outcome);
        let mut extensions = req.extensions_mut();
        match shared(req, &mut extensions) {
            Some(shared) => {
                let decided = with_limiter(req, quotas);
                let groups = &mut shared.decisions.borrow_mut().groups;
                if outcome.is_allowed() {
                    decided.warn_about_second_charge(groups);
                }
                groups.push(decided);
            }
            None => drop(extensions.insert(Stored::Unshared(quotas))),
        }
    }

    /// Adds a decision about limits that were checked by hand. Returns the quotas of the request, and the
    /// position of these limits. A handler may charge one count again on purpose, so nothing is logged.
    pub(crate) fn add_by_hand(
        req: &HttpRequest,
        mut limits: AppliedLimits,
        outcome: &GroupOutcome,
    ) -> (Self, usize) {
        let (quotas, decided) = (Self::of_any(req), with_limiter(req, group(&mut limits, outcome)));
        let position = quotas.decisions.borrow().groups.len();
        quotas.decisions.borrow_mut().groups.push(decided);
        (quotas, position)
    }
}

fn shared(req: &HttpRequest, extensions: &mut Extensions) -> Option<Quotas> {
    let stored = extensions.get_mut::<Stored>()?;
    if let Stored::Shared(quotas) = stored {
        return Some(quotas.clone());
    }
    let quotas = Quotas::default();
    if let Stored::Unshared(group) = mem::replace(stored, Stored::Shared(quotas.clone())) {
        quotas.decisions.borrow_mut().groups.push(with_limiter(req, group));
    }
    Some(quotas)
}

/// Only a handler stores quotas unshared. Nothing wraps the request after that, so the nearest limiter is
/// still the one that decided.
fn with_limiter(req: &HttpRequest, quotas: QuotaGroup) -> DecidedGroup {
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

/// Calls `read` with the groups of a request, if any limit was checked or left out. Does not share them.
#[inline]
pub(crate) fn with_groups<R>(req: &HttpRequest, read: impl FnOnce(&[&[Quota]]) -> R) -> Option<R> {
    Some(match req.extensions().get::<Stored>()? {
        Stored::Unshared(group) => read(&[group]),
        Stored::Shared(quotas) => quotas.with_groups(read),
    })
}

/// Whether a limit of the handler is refunded or charged because of a response with this status. Does not
/// share the quotas.
pub(crate) fn has_corrections(req: &HttpRequest, status: StatusCode) -> bool {
    let any = |groups: &[&[Quota]]| {
        let group = group_of_attributes(groups);
        group.is_some_and(|group| groups[group].iter().any(|quota| quota.correction(status).is_some()))
    };
    with_groups(req, any).unwrap_or_default()
}

/// How many groups of limits were decided about a request so far. Does not share the quotas.
pub(crate) fn number_of_groups(req: &HttpRequest) -> usize {
    with_groups(req, |groups| groups.len()).unwrap_or_default()
}

/// A copy of each quota of a request, also under shadow limits. Does not share them.
pub(crate) fn all_quotas(req: &HttpRequest) -> Vec<Quota> {
    with_groups(req, |groups| groups.concat()).unwrap_or_default()
}

impl FromRequest for Quotas {
    type Error = actix_web::Error;
    type Future = Ready<Result<Self, Self::Error>>;

    fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Ok(Self::of_any(req)))
    }
}
