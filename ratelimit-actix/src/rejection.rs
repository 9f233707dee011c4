//! The answers to requests that a limit does not let through: 429, 503 and 400.
//!
//! Each is a [`ResponseError`], so that `Logger`, `ErrorHandlers` and middleware of your own see it like an error of a
//! handler: `response.error()` gives it back, and `as_error::<RateLimited>()` tells it from others. Nothing that the
//! client sent, and nothing about the store, is in them.

use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::{ContentType, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use actix_web::{HttpResponse, HttpResponseBuilder, ResponseError};
use ratelimit_core::GroupOutcome;

use crate::headers::{Quota, number, retry_after_seconds};

/// What a client is asked to wait, in seconds, when the store cannot answer: nobody knows how long that takes.
const RETRY_UNAVAILABLE_SECONDS: u64 = 1;

/// A limit was exceeded: 429, with the quota, `Retry-After`, and a body that says the same in words.
#[derive(Debug, thiserror::Error)]
#[error("rate limit exceeded")]
pub struct RateLimited {
    outcome: GroupOutcome,
}

impl RateLimited {
    pub(crate) fn new(outcome: GroupOutcome) -> Self {
        Self { outcome }
    }

    /// What was decided about each limit of the handler that was asked, in the order in which they are written.
    ///
    /// Not asked are those that were skipped, and all but one when a `max` of 0 was chosen for that one.
    pub fn outcome(&self) -> &GroupOutcome {
        &self.outcome
    }

    /// The smallest wait, exact to the microsecond, after which this request would pass if nobody else came.
    ///
    /// The client is told whole seconds, rounded up. `None` when it can never pass, because it costs more than a limit.
    pub fn retry_after(&self) -> Option<Duration> {
        self.outcome.retry_after()
    }
}

impl ResponseError for RateLimited {
    fn status_code(&self) -> StatusCode {
        StatusCode::TOO_MANY_REQUESTS
    }

    fn error_response(&self) -> HttpResponse {
        let seconds = self.retry_after().map(retry_after_seconds);
        let mut response = json(self.status_code());
        for header in Quota::of(&self.outcome).into_iter().flat_map(Quota::headers) {
            response.insert_header(header);
        }
        if let Some(seconds) = seconds {
            response.insert_header((RETRY_AFTER, number(seconds)));
        }
        response.body(denied(seconds))
    }
}

/// The store could not decide: 503, to be tried again in a second.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the store of the rate limiter cannot answer")]
#[non_exhaustive]
pub struct Unavailable;

impl ResponseError for Unavailable {
    fn status_code(&self) -> StatusCode {
        StatusCode::SERVICE_UNAVAILABLE
    }

    fn error_response(&self) -> HttpResponse {
        json(self.status_code())
            .insert_header((RETRY_AFTER, number(RETRY_UNAVAILABLE_SECONDS)))
            .body(UNAVAILABLE)
    }
}

/// Nobody was found to count the request for, such as a request without the key that `by` looks for: 400.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the request has no caller to be counted for")]
#[non_exhaustive]
pub struct MissingCaller;

impl ResponseError for MissingCaller {
    fn status_code(&self) -> StatusCode {
        StatusCode::BAD_REQUEST
    }

    fn error_response(&self) -> HttpResponse {
        json(self.status_code()).body(MISSING_CALLER)
    }
}

const UNAVAILABLE: &str = r#"{"error":"Service Unavailable","message":"The service cannot answer right now. Try again in 1 second.","retryAfter":1}"#;
const MISSING_CALLER: &str =
    r#"{"error":"Bad Request","message":"The request does not say who is calling."}"#;
const NEVER: &str = r#"{"error":"Too Many Requests","message":"Rate limit exceeded. This request costs more than the limit allows."}"#;

/// The body of a 429.
fn denied(seconds: Option<u64>) -> String {
    let Some(seconds) = seconds else {
        return NEVER.into();
    };
    let unit = if seconds == 1 { "second" } else { "seconds" };
    format!(
        r#"{{"error":"Too Many Requests","message":"Rate limit exceeded. Try again in {seconds} {unit}.","retryAfter":{seconds}}}"#
    )
}

/// A response whose body is JSON and is to be taken for nothing else.
fn json(status: StatusCode) -> HttpResponseBuilder {
    let mut response = HttpResponse::build(status);
    response.insert_header(ContentType::json()).insert_header((X_CONTENT_TYPE_OPTIONS, "nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use actix_web::body::{BodySize, MessageBody};
    use actix_web::http::header::CONTENT_TYPE;
    use ratelimit_core::{Decision, Outcome, Timestamp};

    use super::*;

    fn limited(decision: Decision) -> RateLimited {
        let outcome = Outcome::new(10, 1, 0, 60_000_000, decision);
        RateLimited::new(GroupOutcome::new(Timestamp::from_micros(0), false, [outcome].as_slice().into()))
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
        let (status, retry_after, body) = told(&Unavailable);
        assert_eq!((status, retry_after.as_deref()), (503, Some("1")));
        assert!(!body.contains("store") && !body.contains("Redis"), "{body}");
    }

    #[test]
    fn a_missing_caller_is_a_bad_request() {
        let (status, retry_after, _) = told(&MissingCaller);
        assert_eq!((status, retry_after), (400, None));
    }
}
