//! Turns the limits that are written in attributes, or for middleware, into those that apply to one request.

use actix_web::HttpRequest;
use ratelimit_core::__private_0_1::{PrivateInForce, PrivateLimiter as _};
use ratelimit_core::{InForce, Policy, RateLimiter};

use super::respond::{deny_all, missing_caller};
use crate::applied_limit::{AppliedLimit, AppliedLimits, LimitRef};
use crate::caller::plan::Plan;
use crate::caller::{Caller, MissingCallerError};
use crate::config::RateLimitConfig;
use crate::quotas::Quotas;
use crate::response::Rejection;

/// A limit for one request: as it is written, with what is computed for the request.
pub(crate) trait LimitSource {
    /// The limit as it is written, without overrides.
    fn limit(&self) -> LimitRef;

    /// Notes that a limiter decides about the limit.
    fn note_limiter(&self, _: &RateLimiter) {}

    /// False if the limit is skipped for this request.
    fn applies_to(&self, _: &HttpRequest) -> bool {
        true
    }

    /// The caller of the request, or none.
    fn caller(&mut self, req: &HttpRequest, config: &RateLimitConfig) -> Caller;

    /// The plan of the request. Called only if overrides have rows of plans.
    fn plan(&self, _: &HttpRequest) -> Plan {
        Plan::default()
    }

    /// Puts the numbers and the cost that are computed for this request into the limit. What `row`, the row
    /// of overrides, sets has precedence. Returns false if no request can pass under these numbers.
    fn adjust(&self, _: &mut AppliedLimit, _row: Option<&InForce<'_>>, _: &HttpRequest) -> bool {
        true
    }
}

/// The limits that apply to a request that is counted, with the numbers in force; or its rejection, if a
/// limit requires a caller and there is none, or if a limit admits no request.
#[inline]
pub(crate) fn applied_limits<S: LimitSource>(
    req: &HttpRequest,
    config: &RateLimitConfig,
    limiter: &RateLimiter,
    sources: impl IntoIterator<Item = S>,
) -> Result<AppliedLimits, Box<Rejection>> {
    let overrides = limiter.overrides_guard();
    let mut limits = AppliedLimits::new();
    for mut source in sources {
        source.note_limiter(limiter);
        let limit = source.limit();
        let rows = overrides.limit(limit.policy());
        let is_off = rows.as_ref().is_some_and(InForce::is_off_for_all);
        // `None` leaves the limit out.
        let caller = if is_off || !source.applies_to(req) {
            Ok(None)
        } else {
            limit.on_missing.resolve(source.caller(req, config))
        };
        let caller = match caller {
            Ok(Some(caller)) => caller,
            Err(MissingCallerError) if rejects_without_value(limiter, limit.policy()) => {
                return Err(missing_caller(req));
            }
            Ok(None) | Err(MissingCallerError) => {
                Quotas::leave_out(req, limit);
                continue;
            }
        };
        let row = rows.map(|rows| {
            let plan = if rows.has_plans() { source.plan(req) } else { Plan::default() };
            rows.of_request(plan.name(), &caller)
        });
        if row.as_ref().is_some_and(InForce::is_off) {
            Quotas::leave_out(req, limit);
            continue;
        }
        let in_force = row.as_ref().map(InForce::shared_policy);
        let cost = limit.cost;
        let mut applied = AppliedLimit { written: limit, in_force, caller, cost };
        if !source.adjust(&mut applied, row.as_ref(), req) {
            return Err(deny_all(req, applied));
        }
        limits.push(applied);
    }
    Ok(limits)
}

/// Whether a limit rejects a request of which a value is missing, such as its caller. A shadow limit does
/// not, and neither does one that is off.
#[cold]
pub(crate) fn rejects_without_value(limiter: &RateLimiter, policy: &Policy) -> bool {
    let in_force = limiter.in_force(policy);
    !in_force.is_off() && limiter.enforces(in_force.policy())
}
