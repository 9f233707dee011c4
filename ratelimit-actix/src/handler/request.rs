//! A request on its way through a limited handler: admitted before it, header fields after it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest, HttpResponse, web};
use ratelimit_core::{Check, GroupOutcome, Policy, RateLimiter};
use smallvec::SmallVec;

use super::bounds::Answer;
use super::limit::HandlerLimit;
use crate::caller::{Caller, MissingCallerError};
use crate::config::RateLimitConfig;
use crate::decision::refund::{Charge, EffectiveLimit, RefundResult};
use crate::decision::respond::{reject, rewrite_quotas_of, write_quotas_of};
use crate::decision::{RequestChecks, decide, is_counted, is_in_shadow, missing_caller, try_decide};
use crate::overrides::{LimitRows, is_lenient};
use crate::quotas::{PolicyRef, Quotas, note_not_counted, note_skipped};

/// A request that all limits of its handler admit.
#[allow(
    missing_debug_implementations,
    reason = "a payload has none, and a request's shows what the client sent"
)]
pub struct AdmittedRequest {
    req: HttpRequest,
    payload: Payload,
    /// What the response may make a refund. `None` if every response counts.
    charge: Option<Box<Charge>>,
}

/// The future of [`admit`]. Nearly every request of a limiter in this process is admitted at once; its future is no larger than
/// what it returns.
#[allow(
    missing_debug_implementations,
    reason = "a payload has none, and a request's shows what the client sent"
)]
#[must_use = "a request is admitted only by awaiting it"]
pub enum Admit {
    /// The request is admitted; `None` once that was returned.
    Ready(Option<AdmittedRequest>),
    /// The request needs a round trip, or is rejected.
    Pending(Pin<Box<dyn Future<Output = Result<AdmittedRequest, HttpResponse>>>>),
}

impl Future for Admit {
    type Output = Result<AdmittedRequest, HttpResponse>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            // A future must not be polled after it was ready.
            Self::Ready(admitted) => {
                admitted.take().map_or(Poll::Pending, |admitted| Poll::Ready(Ok(admitted)))
            }
            Self::Pending(pending) => pending.as_mut().poll(context),
        }
    }
}

/// Checks all limits of a handler at once, before anything reads the body. The future returns the response to a rejected
/// request as its error.
pub fn admit(req: HttpRequest, payload: web::Payload, limits: &'static [HandlerLimit]) -> Admit {
    let payload = payload.into_inner();
    let config = RateLimitConfig::nearest(&req);
    let limiter = HandlerLimit::nearest_limiter(&req, limits);
    let result = match StaticLimits::of(&req, config, limiter, limits) {
        Ok(mut checks) => match try_decide(&req, config, limiter, &mut checks) {
            Some(result) => result,
            None => return Admit::Pending(Box::pin(admit_by_server(req, payload, checks))),
        },
        Err(MissingCallerError) => Err(missing_caller(&req, config)),
    };
    match result {
        Ok(charge) => Admit::Ready(Some(AdmittedRequest::new(req, payload, charge))),
        Err(rejection) => Admit::Pending(Box::pin(async move {
            Err(reject(&req, payload, rejection, RateLimitConfig::nearest(&req)).await)
        })),
    }
}

async fn admit_by_server(
    req: HttpRequest,
    payload: Payload,
    checks: StaticLimits,
) -> Result<AdmittedRequest, HttpResponse> {
    let config = RateLimitConfig::nearest(&req);
    match decide(&req, config, checks).await {
        Ok(charge) => Ok(AdmittedRequest::new(req, payload, charge)),
        Err(rejection) => Err(reject(&req, payload, rejection, config).await),
    }
}

/// The callers of limits without values that are computed for each request.
struct StaticLimits(SmallVec<[StaticLimit; 2]>);

/// A limit that applies to a request.
struct StaticLimit {
    limit: &'static HandlerLimit,
    caller: Caller,
    /// The policy in force, if overrides have one.
    policy: Option<Arc<Policy>>,
}

impl StaticLimit {
    /// `None` if the limit does not apply to the request.
    #[inline]
    fn of(
        limit: &'static HandlerLimit,
        rows: Option<&LimitRows>,
        req: &HttpRequest,
        config: &RateLimitConfig,
    ) -> Result<Option<Self>, MissingCallerError> {
        match rows {
            None => {
                let caller = limit.resolve(limit.find_caller(req, config), limit.is_shadow())?;
                Ok(caller.map(|caller| Self { limit, caller, policy: None }))
            }
            Some(rows) => Self::overridden(limit, rows, req, config),
        }
    }

    #[cold]
    fn overridden(
        limit: &'static HandlerLimit,
        rows: &LimitRows,
        req: &HttpRequest,
        config: &RateLimitConfig,
    ) -> Result<Option<Self>, MissingCallerError> {
        if rows.is_off_for_all() {
            return Ok(None);
        }
        let is_lenient = is_lenient(Some(rows), limit.is_shadow());
        let Some(caller) = limit.resolve(limit.find_caller(req, config), is_lenient)? else {
            return Ok(None);
        };
        let row = rows.row(None, caller.partition());
        let policy = Some(Arc::clone(row.policy()));
        Ok((!row.is_off()).then_some(Self { limit, caller, policy }))
    }

    fn check(&self) -> Option<Check<'_>> {
        let partition = self.caller.partition()?;
        Some(match &self.policy {
            None => self.limit.check(partition),
            Some(policy) => Check::new(policy, partition).with_cost(self.limit.fixed_cost()),
        })
    }

    fn policy_ref(&self) -> PolicyRef {
        let named = self.limit.named_policy();
        match &self.policy {
            None => PolicyRef::Static(named),
            Some(policy) => PolicyRef::Dynamic(named, Arc::clone(policy)),
        }
    }
}

impl StaticLimits {
    /// The limits that apply to a request: none if it is not counted.
    #[inline]
    fn of(
        req: &HttpRequest,
        config: &RateLimitConfig,
        limiter: &RateLimiter,
        limits: &'static [HandlerLimit],
    ) -> Result<Self, MissingCallerError> {
        let mut callers = SmallVec::new();
        if !is_counted(req, config) {
            note_not_counted(req);
            return Ok(Self(callers));
        }
        let overrides = limiter.overrides_guard();
        for limit in limits {
            let rows = overrides.limit(limit.policy());
            match StaticLimit::of(limit, rows, req, config) {
                Ok(Some(applied)) => callers.push(applied),
                Err(missing) if !is_in_shadow(req) => return Err(missing),
                Ok(None) | Err(_) => note_skipped(req, PolicyRef::Static(limit.named_policy())),
            }
        }
        Ok(Self(callers))
    }
}

impl RequestChecks for StaticLimits {
    fn checks(&self) -> SmallVec<[Check<'_>; 2]> {
        self.0.iter().filter_map(StaticLimit::check).collect()
    }

    fn policies(&self) -> impl Iterator<Item = PolicyRef> {
        self.0.iter().map(StaticLimit::policy_ref)
    }

    fn take_charge(&mut self, outcome: GroupOutcome) -> Option<Box<Charge>> {
        if !self.0.iter().any(|applied| applied.limit.counted().may_refund()) {
            return None;
        }
        let limits = self.0.drain(..).map(|applied| EffectiveLimit {
            policy: applied.policy_ref(),
            count: applied.limit.counted(),
            cost: applied.limit.fixed_cost(),
            caller: applied.caller,
        });
        Charge::new(limits.collect(), outcome)
    }
}

impl AdmittedRequest {
    pub(super) const fn new(req: HttpRequest, payload: Payload, charge: Option<Box<Charge>>) -> Self {
        Self { req, payload, charge }
    }

    /// Runs the extractors of the handler together, as Actix does.
    ///
    /// # Errors
    ///
    /// The response of the extractor that failed, with the quotas: the request was charged.
    pub async fn extract<T: FromRequest>(&mut self) -> Result<T, HttpResponse> {
        match T::from_request(&self.req, &mut self.payload).await {
            Ok(arguments) => Ok(arguments),
            Err(error) => Err(self.with_quotas(HttpResponse::from_error(error))),
        }
    }

    /// Turns the value that the handler returned, also an error, into its response, and adds the quotas.
    pub fn respond<R: Answer>(&self, returned: R) -> HttpResponse {
        self.with_quotas(returned.respond_to(&self.req)).map_into_boxed_body()
    }

    /// The configuration is looked up once before the handler and once here: the request moves in between, and a clone would
    /// touch a reference count that all threads share.
    fn with_quotas<B>(&self, mut response: HttpResponse<B>) -> HttpResponse<B> {
        write_quotas_of(&self.req, RateLimitConfig::nearest(&self.req), response.headers_mut());
        response
    }

    /// Refunds the limits that do not count a response with this status, and updates the quotas in it.
    ///
    /// Expansions of handlers with `count` call it with the response of [`respond`](Self::respond), or with the one with which
    /// [`extract`](Self::extract) failed.
    pub async fn finish(mut self, mut response: HttpResponse) -> HttpResponse {
        let Some(charge) = self.charge.take() else { return response };
        let is_told = charge.is_told();
        let RefundResult::Refunded(left) = charge.refund(&self.req, response.status()).await else {
            return response;
        };
        if let Some(quotas) = Quotas::of(&self.req) {
            quotas.replace_last(left.as_ref());
        }
        if is_told {
            rewrite_quotas_of(&self.req, RateLimitConfig::nearest(&self.req), response.headers_mut());
        }
        response
    }
}
