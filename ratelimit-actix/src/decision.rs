//! The decision about one request: made at once if the limiter can, otherwise sent, and awaited.

mod by_hand;
mod limits;
mod respond;
pub(crate) mod values;

use actix_web::HttpRequest;
use ratelimit_core::__private_0_1::{Begun, PrivateLimiter as _, Waiting};
use ratelimit_core::{Check, GroupOutcome, Slots};
use smallvec::SmallVec;

pub use self::by_hand::{Admitted, admit};
use self::limits::applied_limits;
use self::respond::{denied, unavailable};
pub(crate) use self::respond::{reject, write_quotas, write_quotas_of};
use self::values::Values;
use crate::applied_limit::{AppliedLimit, AppliedLimits, LimitRef};
use crate::caller;
use crate::config::RateLimitConfig;
use crate::quotas::Quotas;
use crate::request::nearest_limiter;
use crate::response::Rejection;

/// The slots that an admitted request holds until its response has been sent, or why it is rejected.
pub(crate) type AdmissionResult = Result<Slots, Box<Rejection>>;

/// Whether limits apply to a request: its method is counted, and its client is not exempt. Otherwise notes
/// that none applies.
#[inline]
pub(crate) fn is_counted(req: &HttpRequest, config: &RateLimitConfig) -> bool {
    let is_counted = config.counts(req.method()) && !caller::is_exempt(req, config);
    if !is_counted {
        Quotas::leave_all_out(req);
    }
    is_counted
}

/// A decision that has begun.
pub(crate) enum Decision {
    Made(AdmissionResult),
    /// It takes a round trip, and is made by [`end`].
    Waits(AppliedLimits, Waiting),
}

/// Checks all limits that apply to a request that is counted, each with the values that were computed for the
/// request, and moves them with the outcome to the quotas of the request.
#[inline]
pub(crate) fn begin<'v>(
    req: &HttpRequest,
    config: &RateLimitConfig,
    limits: impl IntoIterator<Item = (LimitRef, Option<&'v mut Values>)>,
) -> Decision {
    let limiter = nearest_limiter(req);
    let mut limits = match applied_limits(req, config, limiter, limits) {
        Ok(limits) => limits,
        Err(rejection) => return Decision::Made(Err(rejection)),
    };
    // Most handlers have one limit, whose check needs no list.
    let begun = match &limits[..] {
        [] => return Decision::Made(Ok(Slots::default())),
        [limit] => limiter.begin_on_worker(&[limit.first_check()]),
        _ => limiter.begin_on_worker(&checks(&limits)),
    };
    match begun {
        Ok(Begun::Decided(outcome)) => Decision::Made(admission(req, &mut limits, outcome)),
        Ok(Begun::Waits(waiting)) => Decision::Waits(limits, waiting),
        Err(_) => Decision::Made(Err(unavailable(req))),
    }
}

/// Awaits a decision that takes a round trip.
pub(crate) async fn end(
    req: &HttpRequest,
    limits: &mut AppliedLimits,
    waiting: &mut Waiting,
) -> AdmissionResult {
    let outcome = nearest_limiter(req).end(&checks(limits), waiting).await;
    match outcome {
        Ok(outcome) => admission(req, limits, outcome),
        Err(_) => Err(unavailable(req)),
    }
}

fn checks(limits: &AppliedLimits) -> SmallVec<[Check<'_>; 1]> {
    limits.iter().map(AppliedLimit::first_check).collect()
}

#[inline]
fn admission(req: &HttpRequest, limits: &mut AppliedLimits, mut outcome: GroupOutcome) -> AdmissionResult {
    Quotas::add(req, limits, &outcome);
    if outcome.is_allowed() { Ok(outcome.take_slots()) } else { Err(denied(req, outcome)) }
}
