//! From limits as they are written, in attributes or for middleware, to those that apply to one request.

use actix_web::HttpRequest;
use ratelimit_core::{InForce, Policy, RateLimiter};

use super::{deny_all, missing_caller};
use crate::caller::MissingCallerError;
use crate::config::RateLimitConfig;
use crate::overrides::Plan;
use crate::quotas::{AppliedLimit, AppliedLimits, Condition, Partition, PolicyRef, note_skipped};
use crate::response::Rejection;

/// A limit as it is written, with the values that are computed for one request.
pub(crate) trait LimitSource {
    /// The policy of the program, without overrides.
    fn policy(&self) -> PolicyRef;

    /// What a request costs.
    fn cost(&self) -> u64;

    /// The condition on responses that count; without one, all count.
    fn count(&self) -> Option<Condition>;

    /// Whether nothing leaves the limit out for this request, such as `skip`.
    fn applies_to(&self, _: &HttpRequest) -> bool {
        true
    }

    /// The caller that counts. `None` if the limit does not apply, because there is no caller.
    fn caller(
        &mut self,
        req: &HttpRequest,
        config: &RateLimitConfig,
    ) -> Result<Option<Partition>, MissingCallerError>;

    /// The plan of the request. Asked while overrides have rows of plans.
    fn plan(&self, _: &HttpRequest) -> Plan {
        Plan::default()
    }

    /// Changes the numbers in force, which are those of `row` if overrides have one, to computed ones. Returns whether they admit any request.
    fn adjust(&self, _: &mut AppliedLimit, _row: Option<&InForce<'_>>, _: &HttpRequest) -> bool {
        true
    }
}

/// The limits that apply to a request that is counted, with the numbers in force; or its rejection, if a limit requires a caller
/// and there is none, or if a limit admits no request.
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
        let policy = source.policy();
        let overridden = overrides.limit(policy.policy());
        let is_off = overridden.as_ref().is_some_and(InForce::is_off_for_all);
        let caller = if is_off || !source.applies_to(req) { Ok(None) } else { source.caller(req, config) };
        let caller = match caller {
            Ok(Some(caller)) => caller,
            Err(MissingCallerError) if rejects_without_value(limiter, policy.policy()) => {
                return Err(missing_caller(req, config));
            }
            Ok(None) | Err(MissingCallerError) => {
                note_skipped(req, policy);
                continue;
            }
        };
        let overridden = overridden.map(|limit| {
            let plan = if limit.has_plans() { source.plan(req) } else { Plan::default() };
            limit.of_request(plan.name(), &caller)
        });
        if overridden.as_ref().is_some_and(InForce::is_off) {
            note_skipped(req, policy);
            continue;
        }
        let mut limit = AppliedLimit { policy, caller, cost: source.cost(), count: source.count() };
        if let Some(row) = &overridden {
            limit.policy.replace(row.shared_policy());
        }
        if !source.adjust(&mut limit, overridden.as_ref(), req) {
            return Err(deny_all(req, config, limit));
        }
        limits.push(limit);
    }
    Ok(limits)
}

/// Whether a limit rejects a request of which a value is missing, such as its caller. A shadow limit does not, and neither does one
/// that is off.
#[cold]
pub(crate) fn rejects_without_value(limiter: &RateLimiter, policy: &Policy) -> bool {
    let in_force = limiter.in_force(policy);
    !in_force.is_off() && limiter.enforces(in_force.policy())
}
