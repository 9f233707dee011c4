//! What surrounds a limited handler: the decision before it, and the header fields after it.

use actix_web::dev::Payload;
use actix_web::http::Method;
use actix_web::{FromRequest, HttpRequest, HttpResponse, web};
use ratelimit_core::{Check, GroupOutcome};
use smallvec::SmallVec;

use crate::bounds::Answer;
use crate::headers::Quota;
use crate::key::Key;
use crate::limit::Limit;
use crate::limiter;
use crate::rejection::{RateLimited, Unavailable};
use crate::settle::{Applied, Charge, Settled};

/// A request that may go on to its handler.
#[allow(
    missing_debug_implementations,
    reason = "a payload has none, and a request's shows what the client sent"
)]
pub struct Pass {
    req: HttpRequest,
    payload: Payload,
    /// What the client is told; nothing when the request was not counted.
    quota: Option<Quota>,
    /// What may be given back after the handler; nothing when every answer counts.
    charge: Option<Box<Charge>>,
}

/// Asks the limiter about all limits of a handler at once, before anything reads the body.
///
/// `OPTIONS` is not counted: a browser's preflight is not the user's doing, and the request that follows is counted.
///
/// # Errors
///
/// The answer for a request that may not go on.
pub async fn begin(
    req: HttpRequest,
    payload: web::Payload,
    limits: &'static [Limit],
) -> Result<Pass, HttpResponse> {
    let payload = payload.into_inner();
    if *req.method() == Method::OPTIONS {
        return Ok(Pass::new(req, payload, None));
    }
    let mut callers: SmallVec<[(&'static Limit, Key); 2]> = SmallVec::new();
    for limit in limits {
        if let Some(caller) = limit.caller(&req).map_err(HttpResponse::from_error)? {
            callers.push((limit, caller));
        }
    }
    let checks = callers.iter().filter_map(|(limit, caller)| Some(limit.check(caller.partition()?)));
    let outcome = decide(&req, &checks.collect::<SmallVec<[Check<'_>; 2]>>()).await?;
    let mut pass = Pass::new(req, payload, outcome.as_ref());
    if let Some(outcome) = outcome
        && callers.iter().any(|(limit, _)| limit.may_refund())
    {
        let applied = callers.into_iter();
        let applied = applied.map(|(limit, key)| Applied { limit, policy: None, key, cost: limit.units() });
        pass.charge(Charge::new(applied.collect(), outcome));
    }
    Ok(pass)
}

/// Asks the nearest limiter; not at all when there is nothing to ask.
pub(crate) async fn decide(
    req: &HttpRequest,
    checks: &[Check<'_>],
) -> Result<Option<GroupOutcome>, HttpResponse> {
    if checks.is_empty() {
        return Ok(None);
    }
    match limiter::nearest(req).check_all(checks).await {
        Ok(outcome) if outcome.is_allowed() => Ok(Some(outcome)),
        Ok(outcome) => Err(HttpResponse::from_error(RateLimited::new(outcome))),
        // The limiter has logged why.
        Err(_) => Err(HttpResponse::from_error(Unavailable)),
    }
}

impl Pass {
    /// A request that was let through; without an outcome it was not counted.
    pub(crate) fn new(req: HttpRequest, payload: Payload, outcome: Option<&GroupOutcome>) -> Self {
        Self { req, payload, quota: outcome.and_then(Quota::of), charge: None }
    }

    /// Keeps what may have to be given back.
    pub(crate) fn charge(&mut self, charge: Charge) {
        self.charge = Some(Box::new(charge));
    }

    /// Runs the extractors of the handler, together, as Actix would.
    ///
    /// # Errors
    ///
    /// The extractor's own answer, with the quota: the request has been counted.
    pub async fn extract<T: FromRequest>(&mut self) -> Result<T, HttpResponse> {
        match T::from_request(&self.req, &mut self.payload).await {
            Ok(arguments) => Ok(arguments),
            Err(error) => Err(self.tell(HttpResponse::from_error(error))),
        }
    }

    /// Turns what the handler returned, an error as well, into its answer, with the quota.
    pub fn respond<R: Answer>(&self, returned: R) -> HttpResponse {
        let response = returned.respond_to(&self.req).map_into_boxed_body();
        self.tell(response)
    }

    /// Adds the quota. Fields of the same name that the handler set are replaced: they would contradict what is counted.
    fn tell(&self, mut response: HttpResponse) -> HttpResponse {
        for (name, value) in self.quota.into_iter().flat_map(Quota::headers) {
            response.headers_mut().insert(name, value);
        }
        response
    }
    /// Gives back what an answer of this status does not count for, and tells what is left then.
    ///
    /// For handlers with `count`, instead of nothing, around [`respond`](Self::respond) and what
    /// [`extract`](Self::extract) failed with.
    pub async fn settle(self, mut response: HttpResponse) -> HttpResponse {
        let Some(charge) = self.charge else { return response };
        let Settled::Refunded(quota) = charge.settle(&self.req, response.status()).await else {
            return response;
        };
        for name in Quota::names() {
            response.headers_mut().remove(name);
        }
        for (name, value) in quota.into_iter().flat_map(Quota::headers) {
            response.headers_mut().insert(name, value);
        }
        response
    }
}
