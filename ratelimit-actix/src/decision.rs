//! The decision about one request: made at once if the limiter counts in this process, otherwise by a boxed future; and what the
//! response shows of it.

pub(crate) mod limit_source;

use std::future::Future;
use std::iter;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::dev::Payload;
use actix_web::http::header::{HeaderMap, RETRY_AFTER};
use actix_web::{HttpMessage, HttpRequest, HttpResponse};
use ratelimit_core::__private_0_1::wall_clock;
use ratelimit_core::{Check, Decision, GroupOutcome, Outcome, RateLimiter};
use smallvec::SmallVec;

use crate::applied_limit::{AppliedLimit, AppliedLimits};
use crate::caller;
use crate::config::RateLimitConfig;
use crate::quotas::{LeftOut, Quotas, all_quotas, with_quotas};
use crate::request::RequestDeadline;
use crate::response::{
    self, Held, MissingCaller, RateLimited, Rejection, RequestStyle, Unavailable, drain, forbid_storing, keep,
};

/// The slots of an admitted request, to be held until its response has been sent; or why it is rejected.
pub(crate) type AdmissionResult = Result<Held, Box<Rejection>>;

/// A decision that is made, or that needs a round trip.
///
/// This is an enum and not an async function: a future that may wait for a server is large, and every request would copy it, also
/// where none ever waits. The future of a decision that is made is no larger than the decision.
#[allow(
    missing_debug_implementations,
    reason = "a payload has none, and a request's shows what the client sent"
)]
#[must_use = "a request is admitted only by awaiting it"]
pub enum Admission<'r, T> {
    /// The decision is made; `None` once it was returned.
    Ready(Option<T>),
    /// The request needs a round trip, or is rejected.
    Pending(Pin<Box<dyn Future<Output = T> + 'r>>),
}

impl<T: Unpin> Future for Admission<'_, T> {
    type Output = T;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match self.get_mut() {
            // A future must not be polled after it was ready.
            Self::Ready(result) => result.take().map_or(Poll::Pending, Poll::Ready),
            Self::Pending(pending) => pending.as_mut().poll(context),
        }
    }
}

/// Whether limits apply to a request: its method is counted, and its client is not exempt. Otherwise notes that none applies.
#[inline]
pub(crate) fn is_counted(req: &HttpRequest, config: &RateLimitConfig) -> bool {
    let is_counted = config.counts(req.method()) && !caller::is_exempt(req, config);
    if !is_counted {
        LeftOut::note_all(req);
    }
    is_counted
}

/// Checks all limits with `limiter`, and moves them with the outcome to the quotas of the request. `None` if that takes a round
/// trip; then nothing is charged, and the limits stay for [`decide_by_store`].
#[inline]
pub(crate) fn try_decide(
    req: &HttpRequest,
    config: &RateLimitConfig,
    limiter: &RateLimiter,
    limits: &mut AppliedLimits,
) -> Option<AdmissionResult> {
    if limits.is_empty() {
        return Some(Ok(Held::default()));
    }
    // Most handlers have one limit, whose check needs no list.
    let outcome = match &limits[..] {
        [limit] => limiter.try_check_all(&[limit.check()]),
        _ => limiter.try_check_all(&checks(limits)),
    };
    match outcome {
        Ok(Some(outcome)) => Some(decided(req, config, limits, outcome)),
        Ok(None) => None,
        Err(_) => Some(Err(unavailable(req, config))),
    }
}

/// [`try_decide`] with a round trip, after it returned `None`.
pub(crate) async fn decide_by_store(
    req: &HttpRequest,
    config: &RateLimitConfig,
    limiter: &RateLimiter,
    mut limits: AppliedLimits,
) -> AdmissionResult {
    let checks = checks(&limits);
    let deadline = RequestDeadline::of(&mut req.extensions_mut());
    let check = async |limiter: &RateLimiter| limiter.check_all_by_store(&checks).await;
    let Ok(outcome) = deadline.run(limiter, check).await else { return Err(unavailable(req, config)) };
    drop(checks);
    decided(req, config, &mut limits, outcome)
}

fn checks(limits: &AppliedLimits) -> SmallVec<[Check<'_>; 2]> {
    limits.iter().map(AppliedLimit::check).collect()
}

#[inline]
fn decided(
    req: &HttpRequest,
    config: &RateLimitConfig,
    limits: &mut AppliedLimits,
    mut outcome: GroupOutcome,
) -> AdmissionResult {
    Quotas::add(req, limits, &outcome);
    if outcome.is_allowed() { Ok(outcome.take_slots()) } else { Err(denied(req, config, outcome)) }
}

/// The rejection of a request about which the store cannot decide. The limiter has logged the reason.
#[cold]
fn unavailable(req: &HttpRequest, config: &RateLimitConfig) -> Box<Rejection> {
    let style = RequestStyle::new(config.style(), req);
    Box::new(Rejection::Unavailable(Unavailable(style)))
}

/// The rejection of a request without the caller that a limit requires.
#[cold]
fn missing_caller(req: &HttpRequest, config: &RateLimitConfig) -> Box<Rejection> {
    let style = RequestStyle::new(config.style(), req);
    Box::new(Rejection::MissingCaller(MissingCaller(style)))
}

/// The rejection by a limit that admits no request: its `max` is 0 or invalid, so no wait helps.
#[cold]
fn deny_all(req: &HttpRequest, config: &RateLimitConfig, limit: AppliedLimit) -> Box<Rejection> {
    let outcome = Outcome::new(0, Decision::Denied { retry_after: None }).with_cost(limit.cost);
    let outcome = GroupOutcome::new(wall_clock(), iter::once(outcome));
    Quotas::add(req, &mut AppliedLimits::from_iter([limit]), &outcome);
    denied(req, config, outcome)
}

/// The rejection for a denial that is among the quotas of the request.
#[cold]
fn denied(req: &HttpRequest, config: &RateLimitConfig, outcome: GroupOutcome) -> Box<Rejection> {
    let style = RequestStyle::new(config.style(), req);
    Box::new(Rejection::RateLimited(RateLimited::new(outcome, all_quotas(req), style)))
}

/// Drains a small body and renders the rejection. The future is large: box it, so that admitted requests do not carry it around.
pub(crate) async fn reject(
    req: &HttpRequest,
    payload: Payload,
    rejection: Box<Rejection>,
    config: &RateLimitConfig,
) -> HttpResponse {
    let unread = drain(req, payload).await;
    let response = render(req, *rejection, config);
    match unread {
        Some(unread) => response.map_body(|_, body| keep(body, unread)),
        None => response,
    }
}

/// The response to a rejected request: that of the error handler, if there is one.
fn render(req: &HttpRequest, rejection: Rejection, config: &RateLimitConfig) -> HttpResponse {
    let Some(handler) = config.error_handler() else {
        return HttpResponse::from_error(rejection);
    };
    let retry_after = rejection.retry_after_seconds();
    let mut response = HttpResponse::from_error(handler(rejection, req));
    write_quotas_of(req, config, response.headers_mut());
    forbid_storing(response.headers_mut());
    if let Some(seconds) = retry_after
        && !response.headers().contains_key(RETRY_AFTER)
    {
        response.headers_mut().insert(RETRY_AFTER, response::number(seconds));
    }
    response
}

/// Sets the header fields with the quotas of a request, if any limit was checked. Fields that the handler set under the same
/// names are replaced: they would contradict what is counted.
pub(crate) fn write_quotas_of(req: &HttpRequest, config: &RateLimitConfig, headers: &mut HeaderMap) {
    let styles = config.header_styles();
    if !styles.is_empty() {
        with_quotas(req, |quotas| response::write(styles, quotas, headers));
    }
}

/// [`write_quotas_of`] for quotas that middleware holds. After a refund the fields of before are removed, also if what
/// is left is unknown.
pub(crate) fn write_quotas(
    quotas: &Quotas,
    is_refunded: bool,
    config: &RateLimitConfig,
    headers: &mut HeaderMap,
) {
    if is_refunded {
        for name in config.header_styles().iter().flat_map(|style| response::field_names(*style)) {
            headers.remove(name);
        }
    }
    quotas.with(|quotas| response::write(config.header_styles(), quotas, headers));
}
