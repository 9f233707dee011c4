//! Limits with values that are computed for each request: the expansion fills them in, one after the other.

use std::sync::Arc;
use std::{iter, mem};

use actix_web::dev::Payload;
use actix_web::http::Method;
use actix_web::{FromRequest, HttpRequest, HttpResponse, web};
use ratelimit_core::clock::{Clock, SystemClock};
use ratelimit_core::{Check, Decision, GroupOutcome, Outcome};
use smallvec::SmallVec;

use super::by::By;
use super::limit::HandlerLimit;
use super::request::AdmittedRequest;
use super::request_fn::{self, RequestFn};
use crate::caller::{Caller, MissingCallerError};
use crate::config::RateLimitConfig;
use crate::decision::refund::{Charge, EffectiveLimit};
use crate::decision::respond::reject;
use crate::decision::{Admission, RequestChecks, denied, is_counted, is_in_shadow};
use crate::overrides::plan::Plan;
use crate::overrides::{EffectiveRow, LimitRows, is_lenient};
use crate::quotas::nearest_limiter;
use crate::quotas::{PolicyRef, Quotas, note_not_counted, note_skipped};
use crate::response::Rejection;

/// The limits of a handler, with the values that are computed for one request so far.
#[allow(
    missing_debug_implementations,
    reason = "a payload has none, and a request's shows what the client sent"
)]
pub struct DynamicLimits {
    req: HttpRequest,
    payload: Payload,
    limits: SmallVec<[DynamicLimit; 2]>,
}

struct DynamicLimit {
    limit: &'static HandlerLimit,
    skipped: bool,
    caller: Option<Caller>,
    max: Option<u64>,
    cost: u64,
    plan: Plan,
}

impl DynamicLimits {
    /// Without computed values. All limits are skipped if the request is not counted.
    pub fn new(req: HttpRequest, payload: web::Payload, limits: &'static [HandlerLimit]) -> Self {
        // Only `OPTIONS` and exempt networks are worth looking the configuration up.
        let may_skip = *req.method() == Method::OPTIONS || RateLimitConfig::any_exempt();
        let skipped = may_skip && !is_counted(&req, RateLimitConfig::nearest(&req));
        if skipped {
            note_not_counted(&req);
        }
        let overrides = HandlerLimit::nearest_limiter(&req, limits).overrides_guard();
        let is_off =
            |limit: &HandlerLimit| overrides.limit(limit.policy()).is_some_and(LimitRows::is_off_for_all);
        let dynamic = |limit: &'static HandlerLimit| DynamicLimit {
            limit,
            skipped: skipped || is_off(limit),
            caller: None,
            max: None,
            cost: limit.fixed_cost(),
            plan: Plan::default(),
        };
        let limits = limits.iter().map(dynamic).collect();
        Self { limits, req, payload: payload.into_inner() }
    }

    /// Whether the limit at this position is not skipped.
    pub fn applies(&self, position: usize) -> bool {
        !self.limits[position].skipped
    }

    /// The request, for closures over it.
    pub const fn request(&self) -> &HttpRequest {
        &self.req
    }

    /// Runs the extractors of a closure, without the body.
    ///
    /// # Errors
    ///
    /// The response of the extractor that failed.
    pub async fn extract<A: FromRequest>(&self) -> Result<A, HttpResponse> {
        request_fn::extract(&self.req).await.map_err(HttpResponse::from_error)
    }

    /// Calls a function.
    ///
    /// # Errors
    ///
    /// The response of its extractor that failed.
    pub async fn call<T, K, F: RequestFn<T, K>>(&self, function: F) -> Result<T, HttpResponse> {
        function.call(&self.req).await.map_err(HttpResponse::from_error)
    }

    /// What becomes of a request for which a value of the limit at this position cannot be computed: `response`, unless it is a
    /// shadow limit, which is skipped then.
    pub fn fail(&mut self, position: usize, response: HttpResponse) -> Option<HttpResponse> {
        let DynamicLimit { limit, skipped, .. } = &mut self.limits[position];
        let overrides = nearest_limiter::nearest(&self.req).overrides_guard();
        let rows = overrides.limit(limit.policy());
        *skipped = is_lenient(rows, limit.is_shadow()) || is_in_shadow(&self.req);
        (!*skipped).then_some(response)
    }

    /// The part of a caller that needs no extractor.
    pub fn part(&self, by: By) -> Caller {
        by.caller(&self.req, RateLimitConfig::nearest(&self.req))
    }

    /// Sets the value of `skip`.
    pub fn skip(&mut self, position: usize, skip: bool) {
        self.limits[position].skipped = skip;
    }

    /// Sets the value of `by`.
    pub fn by(&mut self, position: usize, caller: Caller) {
        self.limits[position].caller = Some(caller);
    }

    /// Sets the value of `max`.
    pub fn max(&mut self, position: usize, max: u64) {
        self.limits[position].max = Some(max);
    }

    /// Sets the value of `cost`.
    pub fn cost(&mut self, position: usize, cost: u64) {
        self.limits[position].cost = cost;
    }

    /// Sets the value of `plan`.
    pub fn plan(&mut self, position: usize, plan: Plan) {
        self.limits[position].plan = plan;
    }

    /// Checks all limits that apply, at once.
    ///
    /// # Errors
    ///
    /// The response to a rejected request.
    pub async fn admit(self) -> Result<AdmittedRequest, HttpResponse> {
        let Self { req, payload, limits } = self;
        let config = RateLimitConfig::nearest(&req);
        match decide(&req, config, limits).result().await {
            Ok(charge) => Ok(AdmittedRequest::new(req, payload, charge)),
            Err(rejection) => Err(Box::pin(reject(&req, payload, rejection, config)).await),
        }
    }
}

fn decide<'r>(
    req: &'r HttpRequest,
    config: &'r RateLimitConfig,
    limits: SmallVec<[DynamicLimit; 2]>,
) -> Admission<'r> {
    let limiter = nearest_limiter::nearest(req);
    let overrides = limiter.overrides_guard();
    let mut effective: SmallVec<[EffectiveLimit; 2]> = SmallVec::new();
    for DynamicLimit { limit, skipped, caller, max, cost, plan } in limits {
        let named = limit.named_policy();
        let rows = overrides.limit(limit.policy());
        if skipped {
            note_skipped(req, PolicyRef::Static(named));
            continue;
        }
        let found = caller.unwrap_or_else(|| limit.find_caller(req, config));
        let caller = match limit.resolve(found, is_lenient(rows, limit.is_shadow())) {
            Ok(Some(caller)) => caller,
            Err(MissingCallerError) if !is_in_shadow(req) => return Admission::missing_caller(req, config),
            Ok(None) | Err(_) => {
                note_skipped(req, PolicyRef::Static(named));
                continue;
            }
        };
        let row = rows.map(|rows| rows.row(plan.name(), caller.partition()));
        if row.is_some_and(EffectiveRow::is_off) {
            note_skipped(req, PolicyRef::Static(named));
            continue;
        }
        limit.warn_about_cost(cost);
        let mut cost = cost;
        let is_shadow = row.map_or(limit.is_shadow(), EffectiveRow::is_shadow);
        let policy = match policy_in_force(limit, max, row) {
            Some(policy) => policy,
            None if is_shadow || is_in_shadow(req) => {
                let Some(policy) = limit.smallest_policy() else { continue };
                cost = HandlerLimit::NEVER;
                // A shadow limit may be one by overrides.
                let policy = row.and_then(|row| row.apply(&policy).ok()).unwrap_or(policy);
                PolicyRef::Dynamic(named, Arc::new(policy))
            }
            None => return Admission::Ready(Err(deny_all(req, config, limit, cost))),
        };
        effective.push(EffectiveLimit { policy, count: limit.counted(), caller, cost });
    }
    Admission::decide(req, config, limiter, EffectiveLimits(effective))
}

/// The policy for one request. `None` if its `max` admits no request.
fn policy_in_force(
    limit: &'static HandlerLimit,
    max: Option<u64>,
    row: Option<&EffectiveRow>,
) -> Option<PolicyRef> {
    let named = limit.named_policy();
    let policy = match (max, row) {
        (None, None) => return Some(PolicyRef::Static(named)),
        (None, Some(row)) => Arc::clone(row.policy()),
        (Some(_), Some(row)) if row.sets_max() => Arc::clone(row.policy()),
        (Some(max), Some(row)) => Arc::new(limit.policy_with_max_under(max, row)?),
        (Some(max), None) => Arc::new(limit.policy_with_max(max)?),
    };
    Some(PolicyRef::Dynamic(named, policy))
}

struct EffectiveLimits(SmallVec<[EffectiveLimit; 2]>);

impl RequestChecks for EffectiveLimits {
    fn checks(&self) -> SmallVec<[Check<'_>; 2]> {
        self.0.iter().map(EffectiveLimit::check).collect()
    }

    fn policies(&self) -> impl Iterator<Item = PolicyRef> {
        self.0.iter().map(|limit| limit.policy.clone())
    }

    fn take_charge(&mut self, outcome: GroupOutcome) -> Option<Box<Charge>> {
        Charge::new(mem::take(&mut self.0), outcome)
    }
}

/// The rejection of a request whose `max` is 0 or invalid: no wait helps.
fn deny_all(
    req: &HttpRequest,
    config: &RateLimitConfig,
    limit: &'static HandlerLimit,
    cost: u64,
) -> Box<Rejection> {
    let outcome = Outcome::new(0, Decision::Denied { retry_after: None }).with_cost(cost);
    let outcome = GroupOutcome::new(SystemClock::new().now(), iter::once(outcome));
    let policy = PolicyRef::Static(limit.named_policy());
    Quotas::add(req, iter::once(policy), &[limit.check(&[])], &outcome);
    denied(req, config, outcome)
}

/// The caller that consists of all `parts`.
pub fn join<const N: usize>(parts: [Caller; N]) -> Caller {
    Caller::join(parts)
}
