//! The decision about one request: made at once if the limiter counts in this process, otherwise by a boxed future.

pub(crate) mod limit_source;
pub(crate) mod respond;

use std::future::Future;
use std::iter;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::{HttpMessage, HttpRequest};
use ratelimit_core::clock::{Clock, SystemClock};
use ratelimit_core::{Check, Decision, GroupOutcome, Outcome, RateLimiter};
use smallvec::SmallVec;

use crate::caller;
use crate::config::RateLimitConfig;
use crate::quotas::{AppliedLimit, AppliedLimits, Quotas, all_quotas, note_not_counted};
use crate::request::deadline::RequestDeadline;
use crate::response::{Held, MissingCaller, RateLimited, Rejection, Unavailable};

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
        note_not_counted(req);
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
    let style = config.response_style().for_request(req);
    Box::new(Rejection::Unavailable(Unavailable::new(style)))
}

/// The rejection of a request without the caller that a limit requires.
#[cold]
fn missing_caller(req: &HttpRequest, config: &RateLimitConfig) -> Box<Rejection> {
    let style = config.response_style().for_request(req);
    Box::new(Rejection::MissingCaller(MissingCaller::new(style)))
}

/// The rejection by a limit that admits no request: its `max` is 0 or invalid, so no wait helps.
#[cold]
fn deny_all(req: &HttpRequest, config: &RateLimitConfig, limit: AppliedLimit) -> Box<Rejection> {
    let outcome = Outcome::new(0, Decision::Denied { retry_after: None }).with_cost(limit.cost);
    let outcome = GroupOutcome::new(SystemClock::new().now(), iter::once(outcome));
    Quotas::add(req, &mut AppliedLimits::from_iter([limit]), &outcome);
    denied(req, config, outcome)
}

/// The rejection for a denial that is among the quotas of the request.
#[cold]
fn denied(req: &HttpRequest, config: &RateLimitConfig, outcome: GroupOutcome) -> Box<Rejection> {
    let style = config.response_style().for_request(req);
    Box::new(Rejection::RateLimited(RateLimited::new(outcome, all_quotas(req), style)))
}
