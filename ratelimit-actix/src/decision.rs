//! The decision about one request: made at once if the limiter counts in this process, otherwise by a boxed future.

pub(crate) mod count;
pub(crate) mod refund;
pub(crate) mod respond;

use std::future::Future;
use std::pin::Pin;

use actix_web::HttpRequest;
use ratelimit_core::{Check, GroupOutcome, RateLimiter};
use smallvec::SmallVec;

use self::refund::Charge;
use crate::caller;
use crate::config::RateLimitConfig;
use crate::quotas::nearest_limiter;
use crate::quotas::request_deadline;
use crate::quotas::{PolicyRef, Quotas, all_quotas};
use crate::response::{MissingCaller, RateLimited, Rejection, Unavailable};

/// The limits of one request that are checked together. Owns the callers.
pub(crate) trait RequestChecks {
    /// One check for each limit that takes part.
    fn checks(&self) -> SmallVec<[Check<'_>; 2]>;

    /// The policy of each check.
    fn policies(&self) -> impl Iterator<Item = PolicyRef>;

    /// What an admitted request was charged, if the response may make it a refund. Takes the callers, so it is called once.
    fn take_charge(&mut self, outcome: GroupOutcome) -> Option<Box<Charge>>;
}

/// An admitted request with what may be refunded later, or the rejection.
pub(crate) type AdmissionResult = Result<Option<Box<Charge>>, Box<Rejection>>;

/// A decision that is made, or that needs a round trip.
///
/// This is an enum and not a future: a future that may wait for a server is large, and every request would copy it, also
/// where none ever waits.
pub(crate) enum Admission<'r> {
    Ready(AdmissionResult),
    Pending(Pin<Box<dyn Future<Output = AdmissionResult> + 'r>>),
}

impl<'r> Admission<'r> {
    /// For a request that is not counted.
    pub(crate) const NOT_COUNTED: Self = Self::Ready(Ok(None));

    /// For a request without the caller that a limit requires.
    #[cold]
    pub(crate) fn missing_caller(req: &HttpRequest, config: &RateLimitConfig) -> Self {
        Self::Ready(Err(missing_caller(req, config)))
    }

    /// Checks all limits with the nearest limiter, which is `limiter`, and adds the outcome to the quotas of the request.
    #[inline]
    pub(crate) fn decide<C: RequestChecks + 'r>(
        req: &'r HttpRequest,
        config: &'r RateLimitConfig,
        limiter: &RateLimiter,
        mut request: C,
    ) -> Self {
        match try_decide(req, config, limiter, &mut request) {
            Some(result) => Self::Ready(result),
            None => Self::Pending(Box::pin(decide(req, config, request))),
        }
    }

    /// Waits for the decision, if it needs a round trip.
    pub(crate) async fn result(self) -> AdmissionResult {
        match self {
            Self::Ready(result) => result,
            Self::Pending(result) => result.await,
        }
    }
}

/// Whether limits apply to a request: its method is counted, and its client is not exempt.
#[inline]
pub(crate) fn is_counted(req: &HttpRequest, config: &RateLimitConfig) -> bool {
    config.counts(req.method()) && !caller::is_exempt(req, config)
}

/// Whether the nearest limiter makes every limit a shadow limit. These do not reject a request, not even one without a caller.
#[cold]
pub(crate) fn is_in_shadow(req: &HttpRequest) -> bool {
    nearest_limiter::nearest(req).is_shadow()
}

/// Checks all limits with the nearest limiter, which is `limiter`, and adds the outcome to the quotas of the request. `None` if that takes a round
/// trip; then nothing is charged.
#[inline]
pub(crate) fn try_decide(
    req: &HttpRequest,
    config: &RateLimitConfig,
    limiter: &RateLimiter,
    request: &mut impl RequestChecks,
) -> Option<AdmissionResult> {
    let checks = request.checks();
    if checks.is_empty() {
        return Some(Ok(None));
    }
    // An error, such as that of a group that is too large, comes up again in `decide` and is a rejection there.
    let outcome = limiter.try_check_all(&checks).ok()??;
    Quotas::add(req, request.policies(), &checks, &outcome);
    drop(checks);
    Some(result(req, config, request, outcome))
}

/// [`try_decide`] with a round trip.
pub(crate) async fn decide(
    req: &HttpRequest,
    config: &RateLimitConfig,
    mut request: impl RequestChecks,
) -> AdmissionResult {
    let checks = request.checks();
    let check = async |limiter: &RateLimiter| limiter.check_all(&checks).await;
    let Ok(outcome) = request_deadline::run_within(req, nearest_limiter::nearest(req), check).await else {
        // The limiter has logged the reason.
        let style = config.response_style().for_request(req);
        return Err(Box::new(Rejection::Unavailable(Unavailable::new(style))));
    };
    Quotas::add(req, request.policies(), &checks, &outcome);
    drop(checks);
    result(req, config, &mut request, outcome)
}

#[inline]
fn result(
    req: &HttpRequest,
    config: &RateLimitConfig,
    request: &mut impl RequestChecks,
    outcome: GroupOutcome,
) -> AdmissionResult {
    if outcome.is_allowed() { Ok(request.take_charge(outcome)) } else { Err(denied(req, config, outcome)) }
}

/// The rejection of a request without the caller that a limit requires.
#[cold]
pub(crate) fn missing_caller(req: &HttpRequest, config: &RateLimitConfig) -> Box<Rejection> {
    let style = config.response_style().for_request(req);
    Box::new(Rejection::MissingCaller(MissingCaller::new(style)))
}

/// The rejection for a denial that is among the quotas of the request.
#[cold]
pub(crate) fn denied(req: &HttpRequest, config: &RateLimitConfig, outcome: GroupOutcome) -> Box<Rejection> {
    let style = config.response_style().for_request(req);
    Box::new(Rejection::RateLimited(RateLimited::new(outcome, all_quotas(req), style)))
}
