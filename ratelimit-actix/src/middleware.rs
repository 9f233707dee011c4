//! Limits for a whole app, scope or resource: middleware around its services.

mod filter;
mod limit;

use std::cell::Cell;
use std::fmt;
use std::future::{Future, Ready, ready};
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use actix_web::body::{EitherBody, MessageBody};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse, Transform, forward_ready};
use actix_web::http::{Method, StatusCode};
use actix_web::{Error, HttpRequest};
use ratelimit_core::__private_0_1::{help, is_first};
use ratelimit_core::{MAX_GROUP, Slots};
use smallvec::SmallVec;

use self::filter::Filter;
pub use self::limit::Limit;
use crate::config::RateLimitConfig;
use crate::decision::values::compute;
use crate::decision::{AdmissionResult, Decision, begin, end, is_counted, reject, write_quotas};
use crate::handler::extracted::Extracted;
use crate::quotas::{Quotas, number_of_groups};
use crate::response::{HeaderStyle, hold, keep};

/// Middleware that limits all requests to an app, a scope or a resource.
///
/// It takes the same policies and callers as the attribute, and makes the same responses and header fields.
/// Limits that are added with [`and`](Self::and) are one group: a request passes all of them and is charged
/// to all, or to none.
///
/// ```
/// use std::time::Duration;
///
/// use actix_web::web;
/// use ratelimit_actix::{Limit, Policy, RateLimitMiddleware, caller};
///
/// static BURST: Policy = Policy::new("burst", 10, Duration::from_secs(1));
/// static DAILY: Policy = Policy::new("daily", 5000, Duration::from_secs(86_400));
///
/// let api = web::scope("/api").wrap(
///     RateLimitMiddleware::new(Limit::new(&BURST).by(caller::principal_or_ip))
///         .and(Limit::new(&DAILY).by(caller::principal_or_ip))
///         .exclude_pattern("/api/health"),
/// );
/// ```
///
/// # With limits of the handler
///
/// A handler in the scope may have limits of its own. They are checked in a second round trip, with a
/// deadline of its own: the middleware's limits are charged first, and stay charged if the handler's then
/// deny. The response reports all limits that were checked, and the legacy fields the tightest of them. A
/// denial by the middleware reports none of the handler's.
///
/// # What it can see
///
/// In an app and a scope, middleware runs before the handler is chosen. Functions that find the caller can
/// read header fields, addresses, request extensions of other middleware, and parameters of the scope itself
/// (`web::scope("/{tenant}")`), but not parameters of the routes in it. Around a resource they can read all
/// parameters.
///
/// Middleware that is registered later runs earlier. For callers by [`Principal`](crate::Principal), write
/// `.wrap(RateLimitMiddleware::new(..)).wrap(authentication)`. Register CORS last, so that browsers may read
/// rejections.
///
/// `NormalizePath` may stand on either side. If it is registered before `RateLimitMiddleware`, it rewrites
/// the path only after the decision. Therefore an inclusion also matches the path with merged slashes, and
/// with or without a slash at its end. An exclusion matches the path as it is, and does not match where
/// merged slashes lead to a route that is not excluded.
#[derive(Clone)]
#[must_use = "middleware does nothing until it is passed to `wrap`"]
pub struct RateLimitMiddleware(Arc<Layer>);

#[derive(Clone)]
struct Layer {
    limits: SmallVec<[Limit; 2]>,
    filter: Filter,
}

impl RateLimitMiddleware {
    /// Starts with one limit: a [`Limit`], or a [`Policy`](crate::Policy) for a limit by address.
    #[track_caller]
    pub fn new(limit: impl Into<Limit>) -> Self {
        let limits = SmallVec::from_iter([limit.into().at(Location::caller())]);
        Self(Arc::new(Layer { limits, filter: Filter::default() }))
    }

    /// Adds a limit to the group.
    ///
    /// # Panics
    ///
    /// If the group has more than [`MAX_GROUP`] limits.
    #[track_caller]
    pub fn and(self, limit: impl Into<Limit>) -> Self {
        let limit = limit.into().at(Location::caller());
        self.with(|layer| {
            layer.limits.push(limit);
            assert!(layer.limits.len() <= MAX_GROUP, "a group can have at most {MAX_GROUP} limits");
        })
    }

    /// Does not limit requests for the route with this pattern, in the form of
    /// [`HttpRequest::match_pattern`]: the prefixes of all scopes and that of the resource, such as
    /// `/api/{tenant}/health`.
    ///
    /// Around a scope or an app, the route is found by the path alone, because guards have not run yet. If
    /// one path fits the patterns of several resources that only guards distinguish, the first of them
    /// decides. Exclude such a route by wrapping the others.
    pub fn exclude_pattern(self, pattern: impl Into<String>) -> Self {
        self.with(|layer| layer.filter.exclude.patterns.push(pattern.into()))
    }

    /// Does not limit requests for this path and the paths below it: `/health` stands for `/health` and
    /// `/health/live`, but not for `/healthy`. The path is compared as the router reads it, without
    /// percent-encoding.
    pub fn exclude_prefix(self, prefix: impl Into<String>) -> Self {
        self.with(|layer| layer.filter.exclude.prefixes.push(prefix.into()))
    }

    /// Limits requests for the route with this pattern, and none that are not included. A path that leads to
    /// the route with its slashes merged, or with or without a slash at its end, is included as well.
    pub fn include_pattern(self, pattern: impl Into<String>) -> Self {
        self.with(|layer| layer.filter.include.patterns.push(pattern.into()))
    }

    /// Limits requests for this path and the paths below it, and none that are not included. Consecutive
    /// slashes count as one.
    pub fn include_prefix(self, prefix: impl Into<String>) -> Self {
        self.with(|layer| layer.filter.include.prefixes.push(prefix.into()))
    }

    /// Limits requests with these methods only. `HEAD` is limited where `GET` is.
    ///
    /// A handler that is mounted for every method (`web::to(..)`) can be called without limit by any other
    /// method.
    pub fn methods(self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.with(|layer| layer.filter.methods(methods.into_iter().collect()))
    }

    fn with(mut self, change: impl FnOnce(&mut Layer)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }
}

impl fmt::Debug for RateLimitMiddleware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitMiddleware")
            .field("limits", &self.0.limits)
            .field("filter", &self.0.filter)
            .finish_non_exhaustive()
    }
}

impl Layer {
    /// A copy for one worker, so that its threads do not meet on reference counts.
    fn clone_for_worker(&self) -> Self {
        Self {
            limits: self.limits.iter().map(Limit::clone_for_worker).collect(),
            filter: self.filter.clone(),
        }
    }

    /// Whether some responses do not count.
    fn has_conditions(&self) -> bool {
        self.limits.iter().any(|limit| !limit.written().count.is_all())
    }

    /// Decides about a request, if it is counted here. Keeps no clone of the request: the router needs to be
    /// its only owner.
    async fn admit(&self, req: &HttpRequest) -> AdmissionResult {
        let config = RateLimitConfig::nearest(req);
        if !is_counted(req, config) || !self.filter.applies_to(req) {
            return Ok(Slots::default());
        }
        let is_computed = self.limits.iter().any(|limit| limit.written().computed.precedes_decision());
        let limits = self.limits.iter().map(Limit::to_ref);
        // Large futures are boxed, because most requests need none of them.
        let decision = if is_computed {
            Box::pin(async move {
                let extracted = Extracted::new(req.clone());
                // Only extractors fail, and closures of middleware have none.
                let (mut values, _) =
                    compute(self.limits.iter().map(Limit::written), &extracted, false).await;
                begin(req, config, limits.zip(values.iter_mut().map(Some)))
            })
            .await
        } else {
            begin(req, config, limits.map(|limit| (limit, None)))
        };
        match decision {
            Decision::Made(made) => made,
            Decision::Waits(mut limits, mut waiting) => {
                Box::pin(async move { end(req, &mut limits, &mut waiting).await }).await
            }
        }
    }
}

impl<S, B> Transform<S, ServiceRequest> for RateLimitMiddleware
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
{
    type Response = ServiceResponse<EitherBody<B>>;
    type Error = Error;
    type Transform = RateLimitMiddlewareService<S>;
    type InitError = ();
    type Future = Ready<Result<Self::Transform, ()>>;

    fn new_transform(&self, service: S) -> Self::Future {
        let layer = Rc::new(self.0.clone_for_worker());
        ready(Ok(RateLimitMiddlewareService { layer, service: Rc::new(service) }))
    }
}

#[cold]
fn warn_about_status(counted: StatusCode, sent: StatusCode) {
    if is_first("other-status", ()) {
        tracing::warn!(
            counted = counted.as_u16(),
            sent = sent.as_u16(),
            help = help("other-status"),
            "an error of inner middleware counts by its `status_code`, and its response has another status; implement \
             `ResponseError::status_code` for it"
        );
    }
}

/// The service of [`RateLimitMiddleware`], around the service that it wraps.
#[allow(missing_debug_implementations, reason = "the wrapped service has none")]
pub struct RateLimitMiddlewareService<S> {
    layer: Rc<Layer>,
    service: Rc<S>,
}

impl<S, B> Service<ServiceRequest> for RateLimitMiddlewareService<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
{
    type Response = ServiceResponse<EitherBody<B>>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Error>>>>;

    forward_ready!(service);

    fn call(&self, req: ServiceRequest) -> Self::Future {
        let (layer, service) = (Rc::clone(&self.layer), Rc::clone(&self.service));
        Box::pin(async move {
            // Kept beyond the request, for an error of the service.
            let styles = RateLimitConfig::nearest(req.request()).header_styles();
            let styles: SmallVec<[HeaderStyle; 2]> = SmallVec::from_slice(styles);
            let outer_groups = layer.has_conditions().then(|| number_of_groups(req.request()));
            let slots = match layer.admit(req.request()).await {
                Ok(slots) => slots,
                Err(rejection) => {
                    let (req, payload) = req.into_parts();
                    let response = Box::pin(reject(&req, payload, rejection)).await.map_into_right_body();
                    return Ok(ServiceResponse::new(req, response));
                }
            };
            let Some(quotas) = Quotas::of(req.request()) else {
                return Ok(service.call(req).await?.map_into_left_body());
            };
            // The groups of inner layers come after it.
            let own_group = outer_groups.and_then(|outer| quotas.last_group().filter(|last| *last >= outer));
            let correct = async |status: StatusCode| match own_group {
                Some(group) => quotas.correct(group, status).await,
                None => false,
            };
            match service.call(req).await {
                Ok(response) => {
                    let (req, mut response) = response.into_parts();
                    let is_changed = correct(response.status()).await;
                    // The handler may be nearer to another configuration, by which it has reported its own
                    // limits.
                    let nearest = RateLimitConfig::nearest(&req).header_styles();
                    write_quotas(&quotas, is_changed, nearest, response.headers_mut());
                    let response = ServiceResponse::new(req, response);
                    Ok(if slots.is_empty() {
                        response.map_into_left_body()
                    } else {
                        response.map_body(|_, body| EitherBody::right(keep(body.boxed(), slots)))
                    })
                }
                // The error becomes a response further out, and carries the quotas there.
                Err(mut error) => {
                    let status = error.as_response_error().status_code();
                    let is_changed = correct(status).await;
                    let slots = Cell::new(slots);
                    error.add_response_mapper(move |mut response| {
                        if own_group.is_some() && response.status() != status {
                            warn_about_status(status, response.status());
                        }
                        write_quotas(&quotas, is_changed, &styles, response.headers_mut());
                        hold(response, slots.take())
                    });
                    Err(error)
                }
            }
        })
    }
}
