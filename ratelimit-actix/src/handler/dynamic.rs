//! Limits with values that are computed for each request: the expansion fills them in, one after the other.

use std::rc::Rc;
use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::http::Method;
use actix_web::{Error, FromRequest, HttpRequest, HttpResponse, web};
#[cfg(feature = "calendar")]
use ratelimit_core::__private_0_1::has_anchor;
use ratelimit_core::__private_0_1::help;
use ratelimit_core::policy::MAX_UNITS;
#[cfg(feature = "calendar")]
use ratelimit_core::policy::{Calendar, Weekday};
use ratelimit_core::{InForce, Policy, RateLimiter, Settings};
use smallvec::SmallVec;

use super::bounds::{self, RequestFn};
use super::extracted::{Extracted, Failure, failure};
use super::limit::HandlerLimit;
use super::{Admission, AdmittedRequest, admission};
use crate::applied_limit::{AppliedLimit, LimitRef};
use crate::caller::Caller;
use crate::caller::of_request::By;
use crate::caller::plan::Plan;
use crate::config::RateLimitConfig;
use crate::decision::limit_source::{LimitSource, rejects_without_value};
use crate::decision::{is_counted, try_decide};
use crate::request::nearest_limiter;

/// A cost that no limit admits.
const NEVER: u64 = MAX_UNITS + 1;

/// The limits of a handler, with the values that are computed for one request so far.
#[allow(
    missing_debug_implementations,
    reason = "a payload has none, and a request's shows what the client sent"
)]
pub struct DynamicLimits {
    req: HttpRequest,
    payload: Payload,
    limits: SmallVec<[DynamicLimit; 2]>,
    extracted: Extracted,
    /// The first error of an extractor of an enforced limit.
    failed: Option<Box<Error>>,
}

struct DynamicLimit {
    limit: &'static HandlerLimit,
    skipped: bool,
    caller: Option<Caller>,
    /// What is computed of the policy.
    settings: Settings,
    max: Option<u64>,
    cost: Option<u64>,
    plan: Plan,
}

impl DynamicLimits {
    /// Without computed values. All limits are skipped if the request is not counted.
    pub fn new(req: HttpRequest, payload: web::Payload, limits: &'static [HandlerLimit]) -> Self {
        // Only `OPTIONS` and exempt networks are worth looking the configuration up.
        let may_skip = *req.method() == Method::OPTIONS || RateLimitConfig::any_exempt();
        let skipped = may_skip && !is_counted(&req, RateLimitConfig::nearest(&req));
        let overrides = nearest_limiter(&req).overrides_guard();
        let is_off = |limit: &HandlerLimit| {
            overrides.limit(limit.policy()).is_some_and(|overridden| overridden.is_off_for_all())
        };
        let dynamic = |limit: &'static HandlerLimit| DynamicLimit {
            limit,
            skipped: skipped || is_off(limit),
            caller: None,
            settings: Settings::new(),
            max: None,
            cost: None,
            plan: Plan::default(),
        };
        let limits = limits.iter().map(dynamic).collect();
        let extracted = Extracted::default();
        Self { limits, req, payload: payload.into_inner(), extracted, failed: None }
    }

    /// Whether the limit at this position is not skipped.
    pub fn applies(&self, position: usize) -> bool {
        !self.limits[position].skipped
    }

    /// The request, for closures over it.
    pub const fn request(&self) -> &HttpRequest {
        &self.req
    }

    /// Runs the extractors of what a closure takes by value, without the body.
    ///
    /// # Errors
    ///
    /// The error of the extractor that failed.
    pub async fn extract<A: FromRequest>(&self) -> Result<A, Failure> {
        bounds::extract(&self.req).await.map_err(failure)
    }

    /// What a closure takes by reference. Its extractor runs at most once, without the body.
    ///
    /// # Errors
    ///
    /// The error of the extractor, each time.
    pub async fn share<A: FromRequest + 'static>(&self) -> Result<Rc<A>, Failure> {
        self.extracted.get(&self.req).await
    }

    /// Calls a function.
    ///
    /// # Errors
    ///
    /// The error of the extractor that failed.
    pub async fn call<T, K, F: RequestFn<T, K>>(&self, function: F) -> Result<T, Failure> {
        function.call(&self.req).await.map_err(failure)
    }

    /// Leaves out the limit at this position, because a value of it cannot be computed. Unless it is a shadow
    /// limit, the request is rejected: by another limit, or with the first such failure.
    #[cold]
    pub fn fail(&mut self, position: usize, failure: &Failure) {
        let DynamicLimit { limit, skipped, .. } = &mut self.limits[position];
        *skipped = true;
        if self.failed.is_none() && rejects_without_value(nearest_limiter(&self.req), limit.policy()) {
            self.failed = failure.take().map(Box::new);
        }
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
        let limit = &mut self.limits[position];
        (limit.max, limit.settings) = (Some(max), limit.settings.max(max));
    }

    /// Sets the value of `anchor` of a week.
    #[cfg(feature = "calendar")]
    pub fn week(&mut self, position: usize, day: Weekday) {
        self.calendar(position, Calendar::week(day));
    }

    /// Sets the value of `anchor` of a month.
    ///
    /// ```
    /// # use actix_web::{HttpRequest, get};
    /// # use ratelimit_actix::rate_limit;
    /// #[rate_limit(max = 100, window = "month", anchor = |_: &HttpRequest| 15)]
    /// #[get("/")]
    /// async fn handler() -> &'static str {
    ///     "ok"
    /// }
    /// ```
    ///
    /// ```compile_fail,E0308
    /// # use actix_web::{HttpRequest, get};
    /// # use ratelimit_actix::rate_limit;
    /// #[rate_limit(max = 100, window = "month", anchor = |_: &HttpRequest| "15")]
    /// #[get("/")]
    /// async fn handler() -> &'static str {
    ///     "ok"
    /// }
    /// ```
    #[cfg(feature = "calendar")]
    pub fn month(&mut self, position: usize, day: u8) {
        self.calendar(position, Calendar::month(day));
    }

    /// Sets the value of `anchor` of a year.
    #[cfg(feature = "calendar")]
    pub fn year(&mut self, position: usize, (month, day): (u8, u8)) {
        self.calendar(position, Calendar::year(month, day));
    }

    /// Sets the calendar, in the zone of the program. Takes the nearest day on which its windows can begin,
    /// which is logged once.
    #[cfg(feature = "calendar")]
    fn calendar(&mut self, position: usize, calendar: Calendar) {
        let DynamicLimit { limit, settings, .. } = &mut self.limits[position];
        let zone = limit.policy().calendar().map_or(calendar.zone(), Calendar::zone);
        let (computed, clamped) = (calendar.in_zone(zone), calendar.clamped().in_zone(zone));
        if !has_anchor(&computed) && limit.is_first("computed-anchor") {
            tracing::error!(
                policy = limit.policy().name(),
                %computed,
                used = %clamped,
                help = help("computed-anchor"),
                "the `anchor` that was computed for a request is no day on which a window begins; the nearest one is used"
            );
        }
        *settings = settings.calendar(clamped);
    }

    /// Sets the value of `cost`.
    pub fn cost(&mut self, position: usize, cost: u64) {
        self.limits[position].cost = Some(cost);
    }

    /// Sets the value of `plan`.
    pub fn plan(&mut self, position: usize, plan: Plan) {
        self.limits[position].plan = plan;
    }

    /// Checks all limits that apply, at once. The future returns the response to a rejected request as its
    /// error.
    pub fn admit(self) -> Admission {
        let Self { req, payload, limits, failed, .. } = self;
        match failed {
            None => {
                let config = RateLimitConfig::nearest(&req);
                let is_configured = config.is_registered();
                let attempt = try_decide(&req, config, limits);
                admission(req, payload, is_configured, attempt)
            }
            Some(error) => Admission::Pending(Box::pin(reject_failed(req, payload, limits, error))),
        }
    }
}

/// Rejects a request for which an extractor of a limit failed. The other limits are judged and charged first,
/// as a group of their own, so that guesses of a token are limited.
async fn reject_failed(
    req: HttpRequest,
    payload: Payload,
    mut limits: SmallVec<[DynamicLimit; 2]>,
    error: Box<Error>,
) -> Result<AdmittedRequest, HttpResponse> {
    let config = RateLimitConfig::nearest(&req);
    for DynamicLimit { limit, caller, skipped, .. } in &mut limits {
        // A limit without a caller is left out as well. Its rejection would come before the other limits are
        // charged.
        let caller = || caller.clone().unwrap_or_else(|| limit.by.caller(&req, config));
        *skipped = *skipped || limit.written.on_missing.resolve(caller()).is_err();
    }
    let is_configured = config.is_registered();
    let attempt = try_decide(&req, config, limits);
    Err(match admission(req, payload, is_configured, attempt).await {
        Ok(admitted) => admitted.fail(*error).await,
        Err(denied) => denied,
    })
}

impl LimitSource for DynamicLimit {
    fn limit(&self) -> LimitRef {
        self.limit.limit()
    }

    fn note_limiter(&self, limiter: &RateLimiter) {
        self.limit.note_limiter(limiter);
    }

    fn computed_cost(&self) -> Option<u64> {
        self.cost.inspect(|cost| self.limit.warn_about_cost(*cost))
    }

    fn applies_to(&self, _: &HttpRequest) -> bool {
        !self.skipped
    }

    fn caller(&mut self, req: &HttpRequest, config: &RateLimitConfig) -> Caller {
        self.caller.take().unwrap_or_else(|| self.limit.by.caller(req, config))
    }

    fn plan(&self, _: &HttpRequest) -> Plan {
        self.plan.clone()
    }

    fn adjust(&self, applied: &mut AppliedLimit, row: Option<&InForce<'_>>, req: &HttpRequest) -> bool {
        if self.settings == Settings::new() {
            return true;
        }
        // Overrides may replace what is computed.
        let replaced = row.map_or_else(Settings::new, InForce::replaced);
        if let Some(policy) = self.policy_with(replaced.over(self.settings)) {
            applied.in_force = Some(Arc::new(policy));
            return true;
        }
        // Such a `max` admits no request, and a shadow limit only reports that: no cost of `NEVER` passes
        // under the smallest one.
        let only_reports = !nearest_limiter(req).enforces(applied.policy());
        let smallest = self.settings.max(1);
        // A shadow limit may be one by overrides.
        let mut smallest = [replaced.over(smallest), smallest].into_iter();
        let mut smallest = || smallest.find_map(|settings| self.limit.policy().with_settings(settings).ok());
        if only_reports && let Some(policy) = smallest() {
            applied.in_force = Some(Arc::new(policy));
            applied.cost = NEVER;
        }
        only_reports
    }
}

impl DynamicLimit {
    /// The policy with the numbers of one request. `None` if `max` admits no request, or is out of its
    /// bounds, which is logged once.
    fn policy_with(&self, settings: Settings) -> Option<Policy> {
        let policy = self.limit.policy().with_settings(settings);
        if let Err(error) = &policy
            && self.max != Some(0)
            && self.limit.is_first("computed-max")
        {
            tracing::error!(
                policy = self.limit.policy().name(),
                max = self.max,
                %error,
                help = help("computed-max"),
                "the `max` that was computed for a request is out of its bounds; such requests are denied"
            );
        }
        policy.ok()
    }
}

/// The caller that consists of all `parts`.
pub fn join<const N: usize>(parts: [Caller; N]) -> Caller {
    Caller::join(parts)
}
