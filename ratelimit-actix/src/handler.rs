//! What surrounds a limited handler: the decision before it, and the header fields after it.

pub(crate) mod bounds;
pub(crate) mod default_key;
pub(crate) mod dynamic;
pub(crate) mod limit;
pub(crate) mod registry;
pub(crate) mod request_fn;

use std::future::Future;
use std::pin::Pin;

use actix_web::dev::Payload;
use actix_web::http::header::HeaderMap;
use actix_web::{FromRequest, HttpRequest, HttpResponse, web};
use ratelimit_core::{Check, GroupOutcome};
use smallvec::SmallVec;

use crate::caller::Key;
use crate::config::RateLimitConfig;
use crate::decision::refund::{Applied, Charge, Settled};
use crate::decision::{Asked, Question};
use crate::handler::bounds::Answer;
use crate::handler::limit::{Limit, Nobody};
use crate::quotas::{Quotas, Rule};
use crate::response::drain::drain;
use crate::response::rejection::{Rejection, answer};

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
    match ask(&req, limits).verdict().await {
        Ok(charge) => Ok(Pass { req, payload, charge }),
        Err(rejection) => Err(refuse(&req, payload, rejection).await),
    }
}

/// Asks about limits of which nothing is chosen for the request, if it is one that counts.
fn ask<'r>(req: &'r HttpRequest, limits: &'static [Limit]) -> Asked<'r> {
    let config = RateLimitConfig::nearest(req);
    if !config.counts(req.method()) {
        return Asked::NOTHING;
    }
    let mut callers = SmallVec::new();
    for limit in limits {
        match limit.caller(req, config) {
            Ok(Some(caller)) => callers.push((limit, caller)),
            Ok(None) => {}
            Err(Nobody) => return Asked::of_nobody(req),
        }
    }
    Asked::about(req, Callers(callers))
}

/// The callers of limits of which nothing is chosen for the request.
struct Callers(SmallVec<[(&'static Limit, Key); 2]>);

impl Question for Callers {
    fn checks(&self) -> SmallVec<[Check<'_>; 2]> {
        self.0.iter().filter_map(|(limit, caller)| Some(limit.check(caller.partition()?))).collect()
    }

    fn rules(&self) -> impl Iterator<Item = Rule> {
        self.0.iter().map(|(limit, _)| Rule::Written(limit))
    }

    fn charged(&mut self, outcome: GroupOutcome) -> Option<Box<Charge>> {
        if !self.0.iter().any(|(limit, _)| limit.may_refund()) {
            return None;
        }
        let applied = self.0.drain(..);
        let applied = applied.map(|(limit, key)| Applied { limit, policy: None, key, cost: limit.units() });
        Some(Box::new(Charge::new(applied.collect(), outcome)))
    }
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
