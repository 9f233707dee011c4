//! One limit of middleware.

use std::borrow::Borrow;
use std::sync::Arc;

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
#[cfg(feature = "calendar")]
use ratelimit_core::__private_0_1::PrivatePolicy as _;
use ratelimit_core::Policy;
#[cfg(feature = "calendar")]
use ratelimit_core::policy::{Calendar, CalendarUnit};

use crate::applied_limit::LimitRef;
use crate::caller::plan::IntoPlan;
use crate::caller::{IntoCaller, OnMissing};
use crate::shared_fn::SharedFn;
use crate::written_limit::by::By;
use crate::written_limit::computed::PerRequest;
use crate::written_limit::count::{ChargeTime, Count, Show};
use crate::written_limit::{Place, WrittenLimit};

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
#[derive(Clone, Debug)]
#[must_use = "a limit does nothing until it is passed to the middleware"]
pub struct Limit(Arc<WrittenLimit>);

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
        if let Some(Err(error)) = policy.calendar().map(Calendar::check) {
            panic!("{error}");
        }
        Self(Arc::new(WrittenLimit::new(policy.clone())))
    }

    fn with(mut self, change: impl FnOnce(&mut WrittenLimit)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Counts by the caller that the function finds; see [`IntoCaller`] for what it may return, with
    /// `into_caller()` behind what borrows from the request. A request without a caller gets 400, unless
    /// [`on_missing`](Self::on_missing) says otherwise.
    ///
    /// Only verified data may distinguish callers. If the function reads an unverified header field, such as
    /// an API key, a client starts a new count with every request.
    /// [`caller::principal_or_ip`](crate::caller::principal_or_ip) counts verified accounts, and addresses
    /// without one. For path parameters use [`caller::path_param`](crate::caller::path_param).
    pub fn by<K: IntoCaller>(self, caller: impl Fn(&HttpRequest) -> K + Send + Sync + 'static) -> Self {
        let by = By::Shared(SharedFn::new(move |req| caller(req).into_caller()));
        self.with(|limit| limit.by = by)
    }

    /// Finds the plan of a request, for which overrides may have numbers; see [`IntoPlan`] for what the
    /// function may return.
    ///
    /// Called only while overrides have rows of plans for this limit. As with [`by`](Self::by), only verified
    /// data may choose it.
    pub fn plan<P: IntoPlan>(self, plan: impl Fn(&HttpRequest) -> P + Send + Sync + 'static) -> Self {
        let plan = PerRequest::shared(move |req| plan(req).into_plan());
        self.with(|limit| limit.computed.plan = plan)
    }

    /// Computes the `max` of each request, such as that of the user's plan, in place of the policy's.
    ///
    /// All requests of one caller share a count. What looks a caller up, such as the operator's page, knows
    /// the policy's `max` only. With a `max` of 0 every request is denied, and so it is with one above
    /// [`MAX_UNITS`](ratelimit_core::policy::MAX_UNITS), which is logged. A `max` of the overrides has
    /// precedence. Middleware panics if the policy has a [lease](crate::PolicyBuilder::lease).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use actix_web::{HttpMessage, HttpRequest};
    /// use ratelimit_actix::{Limit, Policy, RateLimitMiddleware, caller};
    ///
    /// static API: Policy = Policy::new("api", 60, Duration::from_secs(60));
    ///
    /// /// What the authentication has put into the extensions of the request.
    /// struct Plan {
    ///     per_minute: u64,
    /// }
    ///
    /// fn per_minute(req: &HttpRequest) -> u64 {
    ///     req.extensions().get::<Plan>().map_or(API.max(), |plan| plan.per_minute)
    /// }
    ///
    /// let limit = Limit::new(&API).by(caller::principal_or_ip).max(per_minute);
    /// let middleware = RateLimitMiddleware::new(limit);
    /// ```
    pub fn max(self, max: impl Fn(&HttpRequest) -> u64 + Send + Sync + 'static) -> Self {
        self.with(|limit| limit.computed.max = PerRequest::shared(max))
    }

    /// Computes the day on which windows begin, such as the billing day of an account, in place of the
    /// policy's: a [`Calendar`] of the same unit. The time zone is the policy's.
    ///
    /// If no window can begin on that day, the nearest one is used, as by [`Calendar::clamped`], which says
    /// what an account has whose day changes. The policy's calendar is clamped, so that a reset finds the
    /// windows of every day. Middleware panics if the policy has a lease.
    ///
    /// # Panics
    ///
    /// If the policy has no windows of weeks, months or years, or if its calendar is not clamped.
    ///
    /// # Examples
    ///
    /// ```
    /// use actix_web::{HttpMessage, HttpRequest};
    /// use ratelimit_actix::ratelimit_core::policy::Calendar;
    /// use ratelimit_actix::{Limit, Policy, caller};
    ///
    /// static QUOTA: Policy = Policy::builder("quota").max(10_000).calendar(Calendar::month(1).clamped()).build();
    ///
    /// /// What the authentication has put into the extensions of the request.
    /// struct Account {
    ///     billing_day: u8,
    /// }
    ///
    /// fn billing_month(req: &HttpRequest) -> Calendar {
    ///     Calendar::month(req.extensions().get::<Account>().map_or(1, |account| account.billing_day))
    /// }
    ///
    /// let limit = Limit::new(&QUOTA).by(caller::principal).anchor(billing_month);
    /// ```
    #[cfg(feature = "calendar")]
    pub fn anchor(self, anchor: impl Fn(&HttpRequest) -> Calendar + Send + Sync + 'static) -> Self {
        let policy = self.0.policy();
        assert!(
            policy.has_moving_windows()
                && policy.calendar().is_some_and(|calendar| calendar.unit() != CalendarUnit::Day),
            "anchor is for a policy with clamped windows of weeks, months or years, such as `Calendar::month(1).clamped()`"
        );
        self.with(|limit| limit.computed.anchor = PerRequest::shared(anchor))
    }

    /// Computes what a request costs, also a constant: `.cost(|_| 10)`. By default it costs 1.
    ///
    /// A cost of 0 charges nothing. A cost above the capacity of the policy is always denied. Middleware
    /// panics if this is a concurrency limit, of which a request holds one slot.
    pub fn cost(self, cost: impl Fn(&HttpRequest) -> u64 + Send + Sync + 'static) -> Self {
        self.with(|limit| limit.computed.cost = PerRequest::shared(cost))
    }

    /// Sets what to do with a request for which this limit finds no caller. The default is to reject it with
    /// 400.
    pub fn on_missing(self, on_missing: OnMissing) -> Self {
        self.with(|limit| limit.on_missing = on_missing)
    }

    /// Does not apply this limit to requests for which `skip` returns true.
    pub fn skip(self, skip: impl Fn(&HttpRequest) -> bool + Send + Sync + 'static) -> Self {
        self.with(|limit| limit.computed.skip = PerRequest::shared(skip))
    }

    /// Counts only responses for whose status `count` returns true, such as `|status| status == 401`,
    /// [`count::failures`] or [`count::successes`]. By default all count.
    ///
    /// As with `count` of the attribute, a request is charged before it runs, and a response that does not
    /// count gives the charge back. So `max` is also the number of requests that may be in flight: right for
    /// a log-in, whose guesses come in parallel. Around an app add [`charge_after`](Self::charge_after). With
    /// Redis a refund takes two round trips. An error of an inner service counts by its
    /// [`status_code`](actix_web::ResponseError::status_code).
    ///
    /// Middleware panics if this is a concurrency limit, whose slot is free when the response has been sent,
    /// whatever it was.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use actix_web::web;
    /// use ratelimit_actix::{Limit, Policy, RateLimitMiddleware};
    ///
    /// static GUESSES: Policy = Policy::new("guesses", 20, Duration::from_secs(60));
    ///
    /// // Twenty wrong tokens per address and minute.
    /// let wrong = Limit::new(&GUESSES).count(|status| status == 401).charge_after();
    /// let api = web::scope("/api").wrap(RateLimitMiddleware::new(wrong));
    /// ```
    ///
    /// [`count::failures`]: crate::count::failures
    /// [`count::successes`]: crate::count::successes
    pub fn count(self, count: impl Fn(StatusCode) -> bool + Send + Sync + 'static) -> Self {
        let count = Count::Shared(SharedFn::new(move |status: &StatusCode| count(*status)));
        self.with(|limit| limit.count = count)
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
    pub fn charge_after(self) -> Self {
        self.with(|limit| limit.charge = ChargeTime::After)
    }

    /// Sets which responses show the limit. By default all do; those of a limit that [charges
    /// after](Self::charge_after) only if it denies.
    pub fn show(self, show: Show) -> Self {
        self.with(|limit| limit.show = Some(show))
    }

    /// The limit as it was passed to middleware at this place.
    #[track_caller]
    pub(super) fn at(self, place: Place) -> Self {
        if let Some(fault) = self.0.fault() {
            panic!("{fault}");
        }
        self.with(|limit| limit.place = place)
    }

    pub(super) fn written(&self) -> &WrittenLimit {
        &self.0
    }

    pub(super) fn to_ref(&self) -> LimitRef {
        LimitRef::Shared(Arc::clone(&self.0))
    }

    /// A copy with a reference count of its own: the workers' threads do not meet on it.
    pub(super) fn clone_for_worker(&self) -> Self {
        Self(Arc::new(WrittenLimit::clone(&self.0)))
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
