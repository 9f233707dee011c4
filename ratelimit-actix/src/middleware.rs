//! Limits for a whole app, scope or resource: middleware around its services.

mod filter;

use std::fmt;
use std::future::{Ready, ready};
use std::rc::Rc;
use std::sync::Arc;

use actix_web::body::{EitherBody, MessageBody};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse, Transform, forward_ready};
use actix_web::http::Method;
use actix_web::{Error, HttpRequest};
use ratelimit_core::{Check, GroupOutcome, MAX_GROUP, Policy};
use smallvec::SmallVec;

use self::filter::Filter;
use crate::caller::{self, IntoKey, Key, Nobody, OnMissing};
use crate::config::RateLimitConfig;
use crate::decision::refund::Charge;
use crate::decision::respond::{reject, write_quotas};
use crate::decision::{Admission, RequestChecks};
use crate::quotas::{PolicyRef, Quotas};

/// Middleware that limits all requests to an app, a scope or a resource.
///
/// The same policies, callers, answers and header fields as with the attribute. Limits that are added with
/// [`and`](Self::and) are one group: a request passes all and is charged for all, or for none.
///
/// ```
/// use std::time::Duration;
///
/// use actix_web::web;
/// use ratelimit_actix::{Policy, RateLimit, principal_or_address};
///
/// static BURST: Policy = Policy::new("burst", 10, Duration::from_secs(1));
/// static DAILY: Policy = Policy::new("daily", 5000, Duration::from_secs(86_400));
///
/// let api = web::scope("/api").wrap(
///     RateLimit::new(BURST.clone())
///         .and(DAILY.clone())
///         .by(principal_or_address)
///         .exclude_pattern("/api/health"),
/// );
/// ```
///
/// # With limits of the handler
///
/// A handler in the scope may have limits of its own. They are a second question to the store: the middleware's are
/// charged first, and stay charged when the handler's then deny. The answer tells all that were asked, the legacy fields the
/// tightest; a denial by the middleware says nothing of the handler's.
///
/// # What it can see
///
/// In an app and a scope the handler is not chosen yet when middleware runs. Key functions can use header fields,
/// addresses, what other middleware has left in the request, and parameters of the scope itself
/// (`web::scope("/{tenant}")`), but not those of the routes in it; around a resource they can use all.
///
/// Middleware that is registered later runs earlier: for callers by [`Principal`](crate::Principal) write
/// `.wrap(RateLimit::new(..)).wrap(authentication)`, and wrap CORS last of all so that browsers may read refusals.
///
/// `NormalizePath` works on either side. Wrapped before `RateLimit` it rewrites the path only after the limit was decided;
/// an inclusion therefore also matches the path with its slashes merged, and with and without one at its end. An exclusion
/// matches the path as it stands, and no longer where slashes lead to a route that is not excluded.
#[derive(Clone)]
#[must_use = "middleware does nothing until it is given to `wrap`"]
pub struct RateLimit(Arc<Settings>);

type CallerFn = dyn Fn(&HttpRequest) -> Key + Send + Sync;

#[derive(Clone)]
struct Settings {
    limits: SmallVec<[Limit; 2]>,
    filter: Filter,
    cost: u64,
}

#[derive(Clone)]
struct Limit {
    policy: Arc<Policy>,
    caller: Arc<CallerFn>,
    on_missing: OnMissing,
}

impl Limit {
    fn by_address(policy: Policy) -> Self {
        Self {
            policy: Arc::new(policy),
            caller: Arc::new(|req| caller::by_address(req, RateLimitConfig::nearest(req))),
            on_missing: OnMissing::Reject,
        }
    }
}

impl RateLimit {
    /// Limits each client address to `policy`.
    pub fn new(policy: Policy) -> Self {
        let limits = SmallVec::from_iter([Limit::by_address(policy)]);
        Self(Arc::new(Settings { limits, filter: Filter::default(), cost: 1 }))
    }

    /// Adds a limit, again by address.
    ///
    /// # Panics
    ///
    /// When the group has more than [`MAX_GROUP`] limits, or the [cost](Self::cost) is above this one: it would let nobody
    /// pass.
    pub fn and(self, policy: Policy) -> Self {
        self.with(|settings| settings.limits.push(Limit::by_address(policy)))
    }

    /// Counts the limit that was added last for other callers than addresses: see [`IntoKey`] for what a function may
    /// return. Nobody is answered with 400, unless [`on_missing`](Self::on_missing) says otherwise.
    ///
    /// Only what has been verified may tell callers apart: with a function over a header that nobody has checked, such as
    /// an API key, a client chooses a new count with every request. [`principal_or_address`](crate::principal_or_address)
    /// counts accounts once they are verified, and addresses until then. For parameters of the path use
    /// [`path_key`](crate::path_key).
    pub fn by<K: IntoKey>(self, caller: impl Fn(&HttpRequest) -> K + Send + Sync + 'static) -> Self {
        self.caller(Arc::new(move |req| caller(req).into_key()))
    }

    /// Counts everybody as one under the limit that was added last.
    pub fn global(self) -> Self {
        self.caller(Arc::new(|_| Key::global()))
    }

    /// What becomes of requests for which the limit that was added last finds no caller; the default is 400.
    pub fn on_missing(self, on_missing: OnMissing) -> Self {
        self.with(|settings| {
            if let Some(limit) = settings.limits.last_mut() {
                limit.on_missing = on_missing;
            }
        })
    }

    /// What each request costs under every limit; the default is 1.
    ///
    /// # Panics
    ///
    /// When it is 0, so that nothing would ever be denied, or above one of the limits, so that nobody would ever pass.
    pub fn cost(self, cost: u64) -> Self {
        self.with(|settings| settings.cost = cost)
    }

    /// Does not limit requests for the route with this pattern, as [`HttpRequest::match_pattern`] gives it: the
    /// prefixes of all scopes and the resource's own, such as `/api/{tenant}/health`.
    ///
    /// Around a scope or an app the route is looked up by the path alone, because guards have not been asked yet. Where one
    /// path fits the patterns of several resources that only guards tell apart, the first of them decides; exclude such a
    /// route by wrapping the others.
    pub fn exclude_pattern(self, pattern: impl Into<String>) -> Self {
        self.with(|settings| settings.filter.exclude_pattern(pattern.into()))
    }

    /// Does not limit requests for this path and those below it: `/health` is `/health` and `/health/live`, but not
    /// `/healthy`. Compared with the path as the router sees it, without percent-encoding.
    pub fn exclude_prefix(self, prefix: impl Into<String>) -> Self {
        self.with(|settings| settings.filter.exclude_prefix(prefix.into()))
    }

    /// Limits requests for the route with this pattern, and no others than those that are included. Also those that
    /// would lead there with their slashes merged, or with or without one at the end.
    pub fn include_pattern(self, pattern: impl Into<String>) -> Self {
        self.with(|settings| settings.filter.include_pattern(pattern.into()))
    }

    /// Limits requests for this path and those below it, and no others than those that are included. Slashes that follow
    /// each other count as one.
    pub fn include_prefix(self, prefix: impl Into<String>) -> Self {
        self.with(|settings| settings.filter.include_prefix(prefix.into()))
    }

    /// Limits requests by these methods only. `HEAD` is limited where `GET` is.
    ///
    /// A handler that is mounted for every method (`web::to(..)`) can then be called by another one without limit.
    pub fn methods(self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.with(|settings| settings.filter.methods(methods.into_iter().collect()))
    }

    fn caller(self, caller: Arc<CallerFn>) -> Self {
        self.with(|settings| {
            if let Some(limit) = settings.limits.last_mut() {
                limit.caller = caller;
            }
        })
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        let settings = Arc::make_mut(&mut self.0);
        change(settings);
        assert!(settings.limits.len() <= MAX_GROUP, "a group can have at most {MAX_GROUP} limits");
        let least = settings.limits.iter().map(|limit| limit.policy.capacity()).min().unwrap_or(u64::MAX);
        assert!(
            (1..=least).contains(&settings.cost),
            "cost must be from 1 to {least}, the least that a limit of the group ever has"
        );
        self
    }
}

impl fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policies: Vec<_> = self.0.limits.iter().map(|limit| &limit.policy).collect();
        f.debug_struct("RateLimit")
            .field("policies", &policies)
            .field("filter", &self.0.filter)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// The same for one thread, so that threads do not meet on counts of holders.
    fn clone_for_worker(&self) -> Self {
        let mut settings = self.clone();
        for limit in &mut settings.limits {
            limit.policy = Arc::new(Policy::clone(&limit.policy));
        }
        settings
    }

    /// Asks about a request, if it is one that counts here. What is needed of it is taken before it goes on: a clone of
    /// the request, kept, would be in the way of the router.
    fn decide<'r>(&'r self, req: &'r HttpRequest, config: &'r RateLimitConfig) -> Admission<'r> {
        if !config.counts(req.method()) || !self.filter.applies_to(req) {
            return Admission::NOT_COUNTED;
        }
        let mut callers = SmallVec::new();
        for limit in &self.limits {
            match limit.on_missing.known((limit.caller)(req)) {
                Ok(Some(caller)) => callers.push((&limit.policy, caller)),
                Ok(None) => {}
                Err(Nobody) => return Admission::missing_caller(req, config),
            }
        }
        Admission::decide(req, config, Callers { callers, cost: self.cost })
    }
}

/// The callers of one request.
struct Callers<'s> {
    callers: SmallVec<[(&'s Arc<Policy>, Key); 2]>,
    cost: u64,
}

impl RequestChecks for Callers<'_> {
    fn checks(&self) -> SmallVec<[Check<'_>; 2]> {
        let checks = self.callers.iter();
        checks
            .filter_map(|(policy, caller)| Some(Check::new(policy, caller.partition()?).cost(self.cost)))
            .collect()
    }

    fn policies(&self) -> impl Iterator<Item = PolicyRef> {
        self.callers.iter().map(|(policy, _)| PolicyRef::Shared(Arc::clone(policy)))
    }

    /// Every answer counts.
    fn take_charge(&mut self, _: GroupOutcome) -> Option<Box<Charge>> {
        None
    }
}

impl<S, B> Transform<S, ServiceRequest> for RateLimit
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
{
    type Response = ServiceResponse<EitherBody<B>>;
    type Error = Error;
    type Transform = RateLimitService<S>;
    type InitError = ();
    type Future = Ready<Result<Self::Transform, ()>>;

    fn new_transform(&self, service: S) -> Self::Future {
        let settings = Rc::new(self.0.clone_for_worker());
        ready(Ok(RateLimitService { settings, service: Rc::new(service) }))
    }
}

/// The service that [`RateLimit`] makes of the one it is wrapped around.
#[allow(missing_debug_implementations, reason = "nor has the service inside")]
pub struct RateLimitService<S> {
    settings: Rc<Settings>,
    service: Rc<S>,
}

impl<S, B> Service<ServiceRequest> for RateLimitService<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
{
    type Response = ServiceResponse<EitherBody<B>>;
    type Error = Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, Error>>>>;

    forward_ready!(service);

    fn call(&self, req: ServiceRequest) -> Self::Future {
        let (settings, service) = (Rc::clone(&self.settings), Rc::clone(&self.service));
        Box::pin(async move {
            let config = RateLimitConfig::nearest(req.request()).clone();
            if let Err(rejection) = settings.decide(req.request(), &config).result().await {
                let (req, payload) = req.into_parts();
                let response = reject(&req, payload, rejection, &config).await.map_into_right_body();
                return Ok(ServiceResponse::new(req, response));
            }
            let Some(quotas) = Quotas::of(req.request()) else {
                return Ok(service.call(req).await?.map_into_left_body());
            };
            match service.call(req).await {
                Ok(mut response) => {
                    // The handler may be nearer to another configuration, by which it has reported its own limits.
                    let config = RateLimitConfig::nearest(response.request()).clone();
                    write_quotas(&quotas, &config, response.headers_mut());
                    Ok(response.map_into_left_body())
                }
                // The error becomes a response further out, and carries the quotas there.
                Err(mut error) => {
                    error.add_response_mapper(move |mut response| {
                        write_quotas(&quotas, &config, response.headers_mut());
                        response
                    });
                    Err(error)
                }
            }
        })
    }
}
