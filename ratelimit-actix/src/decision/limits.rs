//! Turns limits as they are written into those that apply to one request.

use actix_web::HttpRequest;
use ratelimit_core::__private_0_1::{PrivateInForce, PrivateLimiter as _, help, is_first};
use ratelimit_core::{InForce, RateLimiter};

use super::respond::{deny_all, missing_caller};
use super::values::{Values, rejects_without_value};
use crate::applied_limit::{AppliedLimit, AppliedLimits, LimitRef};
use crate::caller::MissingCallerError;
use crate::caller::plan::Plan;
use crate::config::RateLimitConfig;
use crate::quotas::Quotas;
use crate::response::Rejection;
use crate::written_limit::computed::PerRequest;

/// The limits that apply to a request that is counted, with the numbers in force; or its rejection, if a
/// limit requires a caller and there is none, or if a limit admits no request. Each limit has the values that
/// were computed for the request, if any were.
#[inline]
pub(crate) fn applied_limits<'v>(
    req: &HttpRequest,
    config: &RateLimitConfig,
    limiter: &RateLimiter,
    limits: impl IntoIterator<Item = (LimitRef, Option<&'v mut Values>)>,
) -> Result<AppliedLimits, Box<Rejection>> {
    let overrides = limiter.overrides_guard();
    let mut all = AppliedLimits::new();
    for (limit, mut values) in limits {
        if let LimitRef::Attribute(limit) = &limit {
            limit.limiter.note(limiter, limit.policy());
        }
        let rows = overrides.limit(limit.policy());
        let is_off = rows.as_ref().is_some_and(InForce::is_off_for_all);
        // `None` leaves the limit out.
        let caller = if is_off || values.as_ref().is_some_and(|values| values.is_skipped) {
            Ok(None)
        } else {
            let computed = values.as_mut().and_then(|values| values.caller.take());
            limit.on_missing.resolve(computed.unwrap_or_else(|| limit.by.caller(req, config)))
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
            let plan = if rows.has_plans() { plan(&limit, values.as_deref(), req) } else { Plan::default() };
            rows.of_request(plan.name(), &caller)
        });
        if row.as_ref().is_some_and(InForce::is_off) {
            Quotas::leave_out(req, limit);
            continue;
        }
        let in_force = row.as_ref().map(InForce::shared_policy);
        let cost = limit.cost;
        let mut applied = AppliedLimit { written: limit, in_force, caller, cost };
        if let Some(values) = values
            && !values.adjust(&mut applied, row.as_ref(), req)
        {
            return Err(deny_all(req, applied));
        }
        all.push(applied);
    }
    Ok(all)
}

/// The plan of a request, for which the overrides in force have rows.
#[cold]
fn plan(limit: &LimitRef, values: Option<&Values>, req: &HttpRequest) -> Plan {
    match &limit.computed.plan {
        PerRequest::Now(plan) => plan(req),
        PerRequest::Shared(plan) => plan.call(req),
        PerRequest::Later(_) => values.map(|values| values.plan.clone()).unwrap_or_default(),
        PerRequest::Never => {
            let policy = limit.policy().name();
            // Of attributes, the limiter knows it before the first request.
            if matches!(limit, LimitRef::Shared(_)) && is_first("override-without-effect", policy) {
                tracing::warn!(
                    policy,
                    help = help("override-without-effect"),
                    "the overrides have plans for a limit of middleware that has no `plan`; they do nothing"
                );
            }
            Plan::default()
        }
    }
}
