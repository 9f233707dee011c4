//! What surrounds a limited handler: the decision before it, and the header fields after it.

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest, HttpResponse, web};
use ratelimit_core::Check;
use smallvec::SmallVec;

use crate::bounds::Answer;
use crate::config::RateLimitConfig;
use crate::drain::drain;
use crate::key::Key;
use crate::limit::Limit;
use crate::quotas::Quotas;
use crate::rejection::{MissingCaller, RateLimited, Rejection, Unavailable, answer};
use crate::{limiter, outage};

/// A request that may go on to its handler.
#[allow(
    missing_debug_implementations,
    reason = "a payload has none, and a request's shows what the client sent"
)]
pub struct Pass {
    req: HttpRequest,
    payload: Payload,
}

/// Asks the limiter about all limits of a handler at once, before anything reads the body.
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
    if RateLimitConfig::nearest(&req).counts(req.method()) {
        let keys: SmallVec<[Key; 2]> = limits.iter().map(|limit| limit.key(&req)).collect();
        let checks = limits.iter().zip(&keys);
        let checks = checks.map(|(limit, key)| Some(limit.check(key.partition()?)));
        if let Err(rejection) = decide(&req, checks.collect()).await {
            drain(&req, payload).await;
            return Err(answer(&req, rejection));
        }
    }
    Ok(Pass { req, payload })
}

/// Asks the nearest limiter, and leaves what it says in the request; `None` when one of the callers is nobody.
pub(crate) async fn decide(
    req: &HttpRequest,
    checks: Option<SmallVec<[Check<'_>; 2]>>,
) -> Result<(), Rejection> {
    let Some(checks) = checks else {
        return Err(Rejection::MissingCaller(MissingCaller::new(req)));
    };
    let limiter = limiter::nearest(req);
    match limiter.check_all(&checks).await {
        Ok(outcome) => {
            outage::ends(limiter);
            Quotas::of(req).add(limiter, &checks, &outcome);
            if outcome.is_allowed() {
                Ok(())
            } else {
                Err(Rejection::RateLimited(RateLimited::new(req, outcome)))
            }
        }
        Err(error) => {
            outage::begins(limiter, &error);
            Err(Rejection::Unavailable(Unavailable::new(req)))
        }
    }
}

impl Pass {
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
    pub fn respond<R: Answer>(self, returned: R) -> HttpResponse {
        let response = returned.respond_to(&self.req).map_into_boxed_body();
        self.tell(response)
    }

    /// Adds the quota. Fields of the same name that the handler set are replaced: they would contradict what is counted.
    fn tell(&self, mut response: HttpResponse) -> HttpResponse {
        if let Some(quotas) = Quotas::known(&self.req) {
            quotas.tell(RateLimitConfig::nearest(&self.req), response.headers_mut());
        }
        response
    }
}
