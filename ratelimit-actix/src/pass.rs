//! What surrounds a limited handler: the decision before it, and the header fields after it.

use std::future::Future;
use std::pin::Pin;

use actix_web::dev::Payload;
use actix_web::http::header::HeaderMap;
use actix_web::{FromRequest, HttpRequest, HttpResponse, web};
use ratelimit_core::{Check, GroupOutcome};
use smallvec::SmallVec;

use crate::bounds::Answer;
use crate::config::RateLimitConfig;
use crate::drain::drain;
use crate::key::Key;
use crate::limit::{Limit, Nobody};
use crate::limiter;
use crate::quotas::Quotas;
use crate::rejection::{MissingCaller, RateLimited, Rejection, Unavailable, answer};
use crate::settle::{Applied, Charge, Settled};

/// A request that may go on to its handler.
#[allow(
    missing_debug_implementations,
    reason = "a payload has none, and a request's shows what the client sent"
)]
pub struct Pass {
    pub(crate) req: HttpRequest,
    pub(crate) payload: Payload,
    /// What may be given back after the handler; nothing when every answer counts.
    pub(crate) charge: Option<Box<Charge>>,
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
    match ask(&req, limits).await {
        Ok(charge) => Ok(Pass { req, payload, charge }),
        Err(rejection) => Err(refuse(&req, payload, rejection).await),
    }
}

/// Asks about limits of which nothing is chosen for the request, if it is one that counts.
async fn ask(req: &HttpRequest, limits: &'static [Limit]) -> Result<Option<Box<Charge>>, Box<Rejection>> {
    let config = RateLimitConfig::nearest(req);
    if !config.counts(req.method()) {
        return Ok(None);
    }
    let mut callers: SmallVec<[(&'static Limit, Key); 2]> = SmallVec::new();
    for limit in limits {
        match limit.caller(req, config) {
            Ok(Some(caller)) => callers.push((limit, caller)),
            Ok(None) => {}
            Err(Nobody) => return Err(Box::new(Rejection::MissingCaller(MissingCaller::new(req)))),
        }
    }
    let checks = callers.iter().filter_map(|(limit, caller)| Some(limit.check(caller.partition()?)));
    let may_refund = limits.iter().any(Limit::may_refund);
    let outcome = decide(req, &checks.collect::<SmallVec<[Check<'_>; 2]>>(), may_refund).await?;
    let Some(outcome) = outcome else { return Ok(None) };
    let applied = callers.into_iter();
    let applied = applied.map(|(limit, key)| Applied { limit, policy: None, key, cost: limit.units() });
    Ok(Some(Box::new(Charge::new(applied.collect(), outcome))))
}

/// The answer to a request that may not go on. Boxed, so that requests that do carry nothing of it around.
pub(crate) fn refuse(
    req: &HttpRequest,
    payload: Payload,
    rejection: Box<Rejection>,
) -> Pin<Box<dyn Future<Output = HttpResponse> + '_>> {
    Box::pin(async move {
        let rest = drain(req, payload).await;
        let response = answer(req, *rejection);
        match rest {
            Some(rest) => rest.close_after(response),
            None => response,
        }
    })
}

/// Asks the nearest limiter, and leaves what it says in the request. Not at all when there is nothing to ask.
///
/// Gives the outcome, which is large, only to who wants to `keep` it for giving back what was taken.
pub(crate) async fn decide(
    req: &HttpRequest,
    checks: &[Check<'_>],
    keep: bool,
) -> Result<Option<Box<GroupOutcome>>, Box<Rejection>> {
    if checks.is_empty() {
        return Ok(None);
    }
    let Ok(outcome) = limiter::nearest(req).check_all(checks).await else {
        // The limiter has logged why.
        return Err(Box::new(Rejection::Unavailable(Unavailable::new(req))));
    };
    Quotas::add(req, checks, &outcome);
    if outcome.is_allowed() {
        Ok(keep.then(|| Box::new(outcome)))
    } else {
        Err(Box::new(Rejection::RateLimited(RateLimited::new(req, outcome))))
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
            Err(error) => {
                let mut response = HttpResponse::from_error(error);
                self.tell(response.headers_mut());
                Err(response)
            }
        }
    }

    /// Turns what the handler returned, an error as well, into its answer, with the quota.
    pub fn respond<R: Answer>(&self, returned: R) -> HttpResponse {
        let mut response = returned.respond_to(&self.req);
        self.tell(response.headers_mut());
        response.map_into_boxed_body()
    }

    /// Adds the quota. Fields of the same name that the handler set are replaced: they would contradict what is counted.
    fn tell(&self, headers: &mut HeaderMap) {
        Quotas::tell_of(&self.req, headers);
    }

    /// Gives back what an answer of this status does not count for, and tells what is left then.
    ///
    /// For handlers with `count`, instead of nothing, around [`respond`](Self::respond) and what
    /// [`extract`](Self::extract) failed with.
    pub async fn settle(mut self, mut response: HttpResponse) -> HttpResponse {
        let Some(charge) = self.charge.take() else { return response };
        let Settled::Refunded(left) = charge.settle(&self.req, response.status()).await else {
            return response;
        };
        if let Some(quotas) = Quotas::known(&self.req) {
            quotas.settle(left.as_ref());
        }
        for style in RateLimitConfig::nearest(&self.req).header_styles() {
            for name in style.names() {
                response.headers_mut().remove(name);
            }
        }
        self.tell(response.headers_mut());
        response
    }
}
