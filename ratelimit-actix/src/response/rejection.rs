//! The answers to requests that a limit does not let through: 429, 503 and 400.
//!
//! Each is a [`ResponseError`], so that `Logger`, `ErrorHandlers` and middleware of your own see it like an error of a
//! handler: `response.error()` gives it back, and `as_error::<RateLimited>()` tells it from others. Nothing that the
//! client sent, and nothing about the store, is in them.

use std::fmt;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, RETRY_AFTER, VARY, X_CONTENT_TYPE_OPTIONS};
use actix_web::{HttpRequest, HttpResponse, ResponseError};
use ratelimit_core::GroupOutcome;
use smallvec::SmallVec;

use crate::config::RateLimitConfig;
use crate::quotas::Quotas;
use crate::response::body::{BodyStyle, Refusal};
use crate::response::headers::{number, retry_after, retry_after_seconds, unique_names};

/// What a client is asked to wait, in seconds, when the store cannot answer: nobody knows how long that takes.
const RETRY_UNAVAILABLE_SECONDS: u64 = 1;

/// A limit was exceeded: 429, with the quota, `Retry-After`, and a body that says the same in words.
#[derive(thiserror::Error)]
#[error("rate limit exceeded")]
pub struct RateLimited {
    outcome: GroupOutcome,
    quotas: Quotas,
    face: Face,
}

impl RateLimited {
    /// For a request whose `outcome` has been added to its [`Quotas`].
    pub(crate) fn new(req: &HttpRequest, outcome: GroupOutcome) -> Self {
        Self { outcome, quotas: Quotas::known(req).unwrap_or_default(), face: Face::of(req) }
    }

    /// What was decided about each limit of the handler that was asked, in the order in which they are written.
    ///
    /// Not asked are those that were skipped, and all but one when a `max` of 0 was chosen for that one.
    pub fn outcome(&self) -> &GroupOutcome {
        &self.outcome
    }

    /// What was decided about all limits of the request: those of the middleware around the handler as well.
    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// The smallest wait, exact to the microsecond, after which this request would pass if no other came. Middleware
    /// around the handler that has let it pass and has nothing left is part of that: the wait ends when one more unit passes
    /// there as well.
    ///
    /// The client is told whole seconds, rounded up. `None` when it can never pass, because it costs more than a limit.
    pub fn retry_after(&self) -> Option<Duration> {
        let wait = self.outcome.retry_after()?;
        Some(self.quotas.with(retry_after).map_or(wait, |longer| longer.max(wait)))
    }
}

// By hand: `Logger` shows it, and settings and counts are nobody's business there.
impl fmt::Debug for RateLimited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimited").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

impl ResponseError for RateLimited {
    fn status_code(&self) -> StatusCode {
        StatusCode::TOO_MANY_REQUESTS
    }

    fn error_response(&self) -> HttpResponse {
        let retry_after = self.retry_after().map(retry_after_seconds);
        let mut response = self.quotas.with(|quotas| {
            let names = quotas.iter().zip(unique_names(quotas));
            let violated: SmallVec<[_; 2]> =
                names.filter(|(quota, _)| !quota.outcome().is_allowed()).collect();
            let violated: SmallVec<[&str; 2]> = violated.iter().map(|(_, name)| name.as_ref()).collect();
            self.face.response(&Refusal { status: self.status_code(), retry_after, violated: &violated })
        });
        self.quotas.tell(&self.face.config, response.headers_mut());
        response
    }
}

/// The store could not decide: 503, to be tried again in a second.
#[derive(Clone, thiserror::Error)]
#[error("the store of the rate limiter cannot answer")]
pub struct Unavailable(Face);

impl Unavailable {
    pub(crate) fn new(req: &HttpRequest) -> Self {
        Self(Face::of(req))
    }
}

impl fmt::Debug for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unavailable")
    }
}

impl ResponseError for Unavailable {
    fn status_code(&self) -> StatusCode {
        StatusCode::SERVICE_UNAVAILABLE
    }

    fn error_response(&self) -> HttpResponse {
        let retry_after = Some(RETRY_UNAVAILABLE_SECONDS);
        self.0.response(&Refusal { status: self.status_code(), retry_after, violated: &[] })
    }
}

/// Nobody was found to count the request for, such as a request without the key that `by` looks for: 400.
#[derive(Clone, thiserror::Error)]
#[error("the request has no caller to be counted for")]
pub struct MissingCaller(Face);

impl MissingCaller {
    pub(crate) fn new(req: &HttpRequest) -> Self {
        Self(Face::of(req))
    }
}

impl fmt::Debug for MissingCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MissingCaller")
    }
}

impl ResponseError for MissingCaller {
    fn status_code(&self) -> StatusCode {
        StatusCode::BAD_REQUEST
    }

    fn error_response(&self) -> HttpResponse {
        self.0.response(&Refusal { status: self.status_code(), retry_after: None, violated: &[] })
    }
}

/// Why a request is not let through; what an [error handler] gets.
///
/// [error handler]: crate::RateLimitConfigBuilder::error_handler
#[derive(Debug)]
#[non_exhaustive]
pub enum Rejection {
    /// A limit was exceeded.
    RateLimited(RateLimited),
    /// The store could not decide.
    Unavailable(Unavailable),
    /// There is nobody to count the request for.
    MissingCaller(MissingCaller),
}

impl Rejection {
    /// What `Retry-After` says, in seconds.
    fn retry_after(&self) -> Option<u64> {
        match self {
            Self::RateLimited(limited) => limited.retry_after().map(retry_after_seconds),
            Self::Unavailable(_) => Some(RETRY_UNAVAILABLE_SECONDS),
            Self::MissingCaller(_) => None,
        }
    }
}

impl From<Rejection> for actix_web::Error {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::RateLimited(error) => error.into(),
            Rejection::Unavailable(error) => error.into(),
            Rejection::MissingCaller(error) => error.into(),
        }
    }
}

/// The response for a request that is not let through.
pub(crate) fn answer(req: &HttpRequest, rejection: Rejection) -> HttpResponse {
    let config = RateLimitConfig::nearest(req);
    let Some(handler) = config.error_handler() else {
        return HttpResponse::from_error(rejection);
    };
    let retry_after = rejection.retry_after();
    let mut response = HttpResponse::from_error(handler(rejection, req));
    Quotas::tell_of(req, response.headers_mut());
    if let Some(seconds) = retry_after
        && !response.headers().contains_key(RETRY_AFTER)
    {
        response.headers_mut().insert(RETRY_AFTER, number(seconds));
    }
    response
}

/// How the answer to one request looks.
#[derive(Clone)]
struct Face {
    config: RateLimitConfig,
    style: BodyStyle,
    /// Whether the request itself had a say in that.
    varies: bool,
}

impl Face {
    fn of(req: &HttpRequest) -> Self {
        let config = RateLimitConfig::nearest(req).clone();
        let (style, varies) = config.body_style(req);
        Self { config, style, varies }
    }

    /// A response whose body is to be taken for nothing else than it is.
    fn response(&self, refusal: &Refusal<'_>) -> HttpResponse {
        let (content_type, body) = match self.config.own_body() {
            Some(own) => (HeaderValue::from_str(own.content_type()), own.render(refusal)),
            None => (Ok(HeaderValue::from_static(self.style.content_type())), self.style.render(refusal)),
        };
        let mut response = HttpResponse::build(refusal.status);
        response.insert_header((X_CONTENT_TYPE_OPTIONS, "nosniff"));
        // One that is none was refused when the settings were built.
        if let Ok(content_type) = content_type {
            response.insert_header((CONTENT_TYPE, content_type));
        }
        if self.varies {
            response.insert_header((VARY, HeaderValue::from_name(ACCEPT)));
        }
        if let Some(seconds) = refusal.retry_after {
            response.insert_header((RETRY_AFTER, number(seconds)));
        }
        response.body(body)
    }
}

#[cfg(test)]
mod tests {
    use actix_web::body::{BodySize, MessageBody as _};
    use actix_web::test::TestRequest;
    use ratelimit_core::{Decision, Outcome, Timestamp};

    use super::*;

    fn request() -> HttpRequest {
        TestRequest::default().to_http_request()
    }

    fn limited(decision: Decision) -> RateLimited {
        let outcome = Outcome::new(10, 1, 0, 60_000_000, decision);
        let outcome = GroupOutcome::new(Timestamp::from_micros(0), false, [outcome].as_slice().into());
        RateLimited::new(&request(), outcome)
    }

    /// Status, `Retry-After` and body, after checking what every answer has.
    fn told(error: &dyn ResponseError) -> (u16, Option<String>, String) {
        let response = error.error_response();
        assert_eq!(response.headers().get(CONTENT_TYPE).unwrap(), "application/json");
        assert_eq!(response.headers().get(X_CONTENT_TYPE_OPTIONS).unwrap(), "nosniff");
        assert_eq!(response.status(), error.status_code());
        let retry_after = response.headers().get(RETRY_AFTER);
        let retry_after = retry_after.map(|value| value.to_str().unwrap().to_owned());
        let status = response.status().as_u16();
        assert!(matches!(response.body().size(), BodySize::Sized(_)));
        let body = response.into_body().try_into_bytes().unwrap();
        (status, retry_after, String::from_utf8(body.to_vec()).unwrap())
    }

    #[test]
    fn a_denial_says_when_to_come_back() {
        let body = r#"{"error":"Too Many Requests","message":"Rate limit exceeded. Try again in 42 seconds.","retryAfter":42}"#;
        let expected = (429, Some("42".into()), body.into());
        assert_eq!(told(&limited(Decision::RetryAfterMicros(41_000_001))), expected);
    }

    #[test]
    fn one_second_is_singular() {
        let body = r#"{"error":"Too Many Requests","message":"Rate limit exceeded. Try again in 1 second.","retryAfter":1}"#;
        assert_eq!(told(&limited(Decision::RetryAfterMicros(1))), (429, Some("1".into()), body.into()));
    }

    #[test]
    fn a_request_that_can_never_pass_gets_no_time() {
        let (status, retry_after, body) = told(&limited(Decision::Never));
        assert_eq!((status, retry_after), (429, None));
        assert!(!body.contains("retryAfter") && !body.contains("again"), "{body}");
    }

    #[test]
    fn an_unavailable_store_is_not_the_clients_fault() {
        let (status, retry_after, body) = told(&Unavailable::new(&request()));
        assert_eq!((status, retry_after.as_deref()), (503, Some("1")));
        assert!(!body.contains("store") && !body.contains("Redis"), "{body}");
    }

    #[test]
    fn a_missing_caller_is_a_bad_request() {
        let (status, retry_after, _) = told(&MissingCaller::new(&request()));
        assert_eq!((status, retry_after), (400, None));
    }
}
