//! One limit of middleware.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::sync::Arc;

use actix_web::HttpRequest;
use ratelimit_core::{InForce, Policy};

use crate::applied_limit::{AppliedLimit, ChargeTime, Count, LimitRef, Place, Show, WrittenLimit};
use crate::caller::plan::{IntoPlan, Plan};
use crate::caller::{self, Caller, IntoCaller, OnMissing};
use crate::config::RateLimitConfig;
use crate::decision::limit_source::LimitSource;
use ratelimit_core::__private_0_1::{help, is_first};

type CallerFn = dyn Fn(&HttpRequest) -> Caller + Send + Sync;
type PlanFn = dyn Fn(&HttpRequest) -> Plan + Send + Sync;
type SkipFn = dyn Fn(&HttpRequest) -> bool + Send + Sync;

/// One limit of the [`RateLimitMiddleware`](crate::RateLimitMiddleware): a policy, its callers, and the cost
/// of a request.
///
/// A [`Policy`], owned or by reference, is a limit by address with a cost of 1. With a policy of
/// [`Policy::concurrency`] a request holds a slot until its response has been sent or dropped.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use ratelimit_actix::{Limit, OnMissing, Policy, RateLimitMiddleware, caller};
///
/// static BURST: Policy = Policy::new("burst", 10, Duration::from_secs(1));
/// static DAILY: Policy = Policy::new("daily", 5000, Duration::from_secs(86_400));
///
/// let middleware = RateLimitMiddleware::new(&BURST).and(Limit::new(&DAILY).by(caller::principal).on_missing(OnMissing::Skip));
/// ```
#[derive(Clone)]
#[must_use = "a limit does nothing until it is passed to the middleware"]
pub struct Limit {
    written: Arc<WrittenLimit>,
    /// Finds the caller. `None` for the address.
    by: Option<Arc<CallerFn>>,
    plan: Option<Arc<PlanFn>>,
    skip: Option<Arc<SkipFn>>,
}

impl Limit {
    /// Limits each client address to `policy`, a `Policy` or `&Policy`.
    ///
    /// # Panics
    ///
    /// If the policy has a calendar window in a time zone that does not exist.
    #[track_caller]
    pub fn new(policy: impl Borrow<Policy>) -> Self {
        let policy: &Policy = policy.borrow();
        #[cfg(feature = "calendar")]
        if let Some(Err(error)) = policy.calendar().map(ratelimit_core::policy::Calendar::check) {
            panic!("{error}");
        }
        let written = Arc::new(WrittenLimit::new(Cow::Owned(policy.clone())));
        Self { written, by: None, plan: None, skip: None }
    }

    fn written(&mut self) -> &mut WrittenLimit {
        Arc::make_mut(&mut self.written)
    }

    /// Counts by the caller that the function finds; see [`IntoCaller`] for what it may return. A request
    /// without a caller gets 400, unless [`on_missing`](Self::on_missing) says otherwise.
    ///
    /// Only verified data may distinguish callers. If the function reads an unverified header field, such as
    /// an API key, a client starts a new count with every request.
    /// [`caller::principal_or_ip`](crate::caller::principal_or_ip) counts verified accounts, and addresses
    /// without one. For path parameters use [`caller::path_param`](crate::caller::path_param).
    pub fn by<K: IntoCaller>(mut self, caller: impl Fn(&HttpRequest) -> K + Send + Sync + 'static) -> Self {
        self.by = Some(Arc::new(move |req| caller(req).into_caller()));
        self
    }

    /// Counts all callers as one.
    pub fn global(mut self) -> Self {
        self.by = Some(Arc::new(|_| Caller::global()));
        self
    }

    /// Finds the plan of a request, for which overrides may have numbers; see [`IntoPlan`] for what the
    /// function may return.
    ///
    /// Called only while overrides have rows of plans for this limit. As with [`by`](Self::by), only verified
    /// data may choose it.
    pub fn plan<P: IntoPlan>(mut self, plan: impl Fn(&HttpRequest) -> P + Send + Sync + 'static) -> Self {
        self.plan = Some(Arc::new(move |req| plan(req).into_plan()));
        self
    }

    /// Sets what a request costs. The default is 1.
    ///
    /// # Panics
    ///
    /// If `cost` is 0, so that no request is ever denied, or above the policy's capacity, so that none ever
    /// passes. For a concurrency limit, of which a request holds one slot, if it is not 1.
    pub fn cost(mut self, cost: u64) -> Self {
        assert!(
            cost == 1 || !self.written.policy.is_concurrency(),
            "a request holds one slot of a concurrency limit; remove the cost"
        );
        let capacity = self.written.policy.capacity();
        assert!(
            (1..=capacity).contains(&cost),
            "cost must be from 1 to {capacity}, the capacity of policy `{}`",
            self.written.policy.name()
        );
        self.written().cost = cost;
        self
    }

    /// Sets what to do with a request for which this limit finds no caller. The default is to reject it with
    /// 400.
    pub fn on_missing(mut self, on_missing: OnMissing) -> Self {
        self.written().on_missing = on_missing;
        self
    }

    /// Does not apply this limit to requests for which `skip` returns true.
    pub fn skip(mut self, skip: impl Fn(&HttpRequest) -> bool + Send + Sync + 'static) -> Self {
        self.skip = Some(Arc::new(skip));
        self
    }

    /// Sets which responses count. The default is [`Count::All`].
    ///
    /// As with `count` of the attribute, a request is charged before it runs, and a response that does not
    /// count gives the charge back. So `max` is also the number of requests that may be in flight: right for
    /// a log-in, whose guesses come in parallel. Around an app add [`charge_after`](Self::charge_after). With
    /// Redis a refund takes two round trips. An error of an inner service counts by its
    /// [`status_code`](actix_web::ResponseError::status_code).
    ///
    /// # Panics
    ///
    /// For a concurrency limit, whose slot is free when the response has been sent, whatever it was.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use actix_web::http::StatusCode;
    /// use actix_web::web;
    /// use ratelimit_actix::{Count, Limit, Policy, RateLimitMiddleware};
    ///
    /// static GUESSES: Policy = Policy::new("guesses", 20, Duration::from_secs(60));
    ///
    /// // Twenty wrong tokens per address and minute. `Count::Failures` counts every status of 400 or more.
    /// let wrong = Count::When(|status| status == StatusCode::UNAUTHORIZED);
    /// let api = web::scope("/api").wrap(RateLimitMiddleware::new(Limit::new(&GUESSES).count(wrong).charge_after()));
    /// ```
    pub fn count(mut self, count: Count) -> Self {
        self.written().count = count.condition();
        assert!(
            !self.has_condition() || !self.written.policy.is_concurrency(),
            "a concurrency limit counts what runs, whatever the response; remove the count"
        );
        self
    }

    /// Charges a request when its response is known and counts, and nothing before: for limits under which
    /// nearly all responses do not count, such as wrong keys around an app.
    ///
    /// A request is admitted if its cost fits. If its response counts, the cost is charged then, if it still
    /// fits. So requests whose responses do not count are never denied because of each other, and those that
    /// are in flight when the limit becomes full have passed. A request without a response is not charged,
    /// such as one whose client has gone away. A good request takes one round trip.
    ///
    /// A limit with a [`count`](Self::count) and a [block](Policy::block) always charges after: only
    /// responses that count, and requests behind them, begin the block. Middleware panics if a limit that
    /// charges after has no `count`, has a [lease](crate::PolicyBuilder::lease), or is a concurrency limit.
    pub fn charge_after(mut self) -> Self {
        self.written().charge = ChargeTime::After;
        self
    }

    /// Sets which responses show the limit. By default all do; those of a limit that [charges
    /// after](Self::charge_after) only if it denies.
    pub fn show(mut self, show: Show) -> Self {
        self.written().show = Some(show);
        self
    }

    /// The limit as it was passed to middleware at this place.
    #[track_caller]
    pub(super) fn at(mut self, place: Place) -> Self {
        self.written().place = place;
        if let Some(fault) = self.written.charge_fault() {
            panic!("{fault}");
        }
        self
    }

    /// Whether some responses do not count.
    pub(super) fn has_condition(&self) -> bool {
        self.written.count.is_some()
    }

    /// A copy whose written limit has a reference count of its own: the workers' threads do not meet on it.
    pub(super) fn clone_for_worker(&self) -> Self {
        Self { written: Arc::new(WrittenLimit::clone(&self.written)), ..self.clone() }
    }
}

impl LimitSource for &Limit {
    fn limit(&self) -> LimitRef {
        LimitRef::Middleware(Arc::clone(&self.written))
    }

    fn applies_to(&self, req: &HttpRequest) -> bool {
        !self.skip.as_ref().is_some_and(|skip| skip(req))
    }

    fn caller(&mut self, req: &HttpRequest, config: &RateLimitConfig) -> Caller {
        match &self.by {
            None => caller::by_address(req, config),
            Some(caller) => caller(req),
        }
    }

    fn plan(&self, req: &HttpRequest) -> Plan {
        if let Some(plan) = &self.plan {
            return plan(req);
        }
        let name = self.written.policy.name();
        if is_first("override-without-effect", ("plan", name)) {
            tracing::warn!(
                policy = name,
                help = help("override-without-effect"),
                "the overrides have plans for a limit of middleware that has no `plan`; they do nothing"
            );
        }
        Plan::default()
    }

    /// Changes nothing. Says once that no request passes, because its cost is above what overrides allow.
    fn adjust(&self, applied: &mut AppliedLimit, _: Option<&InForce<'_>>, _: &HttpRequest) -> bool {
        let (capacity, WrittenLimit { policy, cost, .. }) = (applied.policy().capacity(), &*self.written);
        if *cost > capacity && is_first("override-without-effect", ("cost", policy.name())) {
            tracing::error!(
                policy = policy.name(),
                cost,
                capacity,
                help = help("override-without-effect"),
                "the overrides allow less than one request of this limit of middleware costs; such requests are denied"
            );
        }
        true
    }
}

impl From<Policy> for Limit {
    fn from(policy: Policy) -> Self {
        Self::new(policy)
    }
}

impl From<&Policy> for Limit {
    fn from(policy: &Policy) -> Self {
        Self::new(policy)
    }
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limit")
            .field("policy", self.written.policy())
            .field("cost", &self.written.cost)
            .field("on_missing", &self.written.on_missing)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use actix_web::test::TestRequest;
    use ratelimit_core::RateLimiter;

    use super::*;
    use crate::decision::limit_source::applied_limits;
    use crate::response::Rejection;

    static TWO: Policy = Policy::new("two", 2, Duration::from_secs(60));

    #[test]
    fn a_limit_that_skips_a_request_needs_no_caller() {
        let limit = Limit::new(&TWO).by(|_| None::<u8>).skip(|req| req.path() == "/free");
        let limits = |path: &str| {
            let req = TestRequest::with_uri(path).to_http_request();
            let limiter = RateLimiter::in_memory();
            applied_limits(&req, &RateLimitConfig::default(), &limiter, [&limit]).map(|limits| limits.len())
        };
        assert!(matches!(limits("/free"), Ok(0)));
        assert!(
            matches!(limits("/paid"), Err(rejection) if matches!(*rejection, Rejection::MissingCaller(_)))
        );
    }

    #[test]
    #[should_panic(expected = "cost must be from 1 to 2, the capacity of policy `two`")]
    fn a_cost_above_the_capacity_panics() {
        let _ = Limit::new(TWO.clone()).cost(3);
    }

    #[test]
    #[should_panic(expected = "a request holds one slot of a concurrency limit")]
    fn a_cost_of_a_concurrency_limit_panics() {
        let _ = Limit::new(Policy::concurrency("streams", 3)).cost(2);
    }

    #[test]
    #[should_panic(expected = "a concurrency limit counts what runs")]
    fn a_count_of_a_concurrency_limit_panics() {
        let _ = Limit::new(Policy::concurrency("streams", 3)).count(Count::Failures);
    }

    #[test]
    #[should_panic(expected = "cost must be from 1 to 2")]
    fn a_cost_of_zero_panics() {
        let _ = Limit::new(&TWO).cost(0);
    }
}
