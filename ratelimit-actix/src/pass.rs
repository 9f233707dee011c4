//! What surrounds a limited handler: the decision before it, and the header fields after it.

use actix_web::dev::Payload;
use actix_web::http::Method;
use actix_web::{FromRequest, HttpRequest, HttpResponse, web};
use ratelimit_core::Check;
use smallvec::SmallVec;

use crate::bounds::Answer;
use crate::headers::Quota;
use crate::key::Key;
use crate::limit::Limit;
use crate::limiter;
use crate::rejection::{MissingCaller, RateLimited, Unavailable};

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
    let quota = if *req.method() == Method::OPTIONS { None } else { decide(&req, limits).await? };
    Ok(Pass { req, payload: payload.into_inner(), quota })
}

async fn decide(req: &HttpRequest, limits: &'static [Limit]) -> Result<Option<Quota>, HttpResponse> {
    let keys: SmallVec<[Key; 2]> = limits.iter().map(|limit| limit.key(req)).collect();
    let checks = limits.iter().zip(&keys);
    let checks = checks.map(|(limit, key)| Some(limit.check(key.partition()?)));
    let Some(group) = checks.collect::<Option<SmallVec<[Check<'_>; 2]>>>() else {
        return Err(HttpResponse::from_error(MissingCaller));
    };
    match limiter::nearest(req).check_all(&group).await {
        Ok(outcome) if outcome.is_allowed() => Ok(Quota::of(&outcome)),
        Ok(outcome) => Err(HttpResponse::from_error(RateLimited::new(outcome))),
        // The limiter has logged why.
        Err(_) => Err(HttpResponse::from_error(Unavailable)),
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
        for (name, value) in self.quota.into_iter().flat_map(Quota::headers) {
            response.headers_mut().insert(name, value);
        }
        response
    }
}
