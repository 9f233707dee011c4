//! Rejections as errors: 429, 503 and 400.
//!
//! Each is a [`ResponseError`], so that `Logger`, `ErrorHandlers` and other middleware treat it like an error
//! of a handler: `response.error()` returns it, and `as_error::<RateLimited>()` identifies it. None contains
//! data that the client sent, or anything about the store.

use std::fmt;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, ResponseError};
#[cfg(feature = "test-util")]
use ratelimit_core::Check;
use ratelimit_core::{GroupOutcome, Outcome};
use smallvec::SmallVec;

use super::body::RejectionInfo;
use super::headers::{retry_after, retry_after_seconds, unique_names, write};
use super::style::RequestStyle;
#[cfg(feature = "test-util")]
use crate::applied_limit::AppliedLimit;
use crate::quotas::{Quota, shown, tightest};

/// A limit denied the request: 429, with the quota, `Retry-After`, and a body that repeats it in words.
#[derive(Clone, thiserror::Error)]
#[error("rate limit exceeded")]
pub struct RateLimited {
    outcome: GroupOutcome,
    quotas: Vec<Quota>,
    style: RequestStyle,
}

impl RateLimited {
    /// The rejection with the quotas of the request, which include those of the denial.
    pub(crate) fn new(outcome: GroupOutcome, quotas: Vec<Quota>, style: RequestStyle) -> Self {
        Self { outcome, quotas, style }
    }

    /// A rejection to test an error handler with, for the outcome of `checks`. Its response has the default
    /// style.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use actix_web::http::StatusCode;
    /// use ratelimit_actix::{Check, Policy, RateLimited, RateLimiter, Rejection};
    ///
    /// # actix_web::rt::System::new().block_on(async {
    /// let policy = Policy::new("daily", 1, Duration::from_secs(86_400));
    /// let checks = [Check::new(&policy, "caller")];
    /// let limiter = RateLimiter::in_memory();
    /// limiter.check_all(&checks).await?;
    /// let denied = limiter.check_all(&checks).await?;
    ///
    /// let rejection = Rejection::RateLimited(RateLimited::for_test(&checks, denied));
    /// let error = actix_web::Error::from(rejection);
    /// assert_eq!(error.as_response_error().status_code(), StatusCode::TOO_MANY_REQUESTS);
    /// # Ok::<(), ratelimit_actix::StoreError>(()) }).unwrap();
    /// ```
    #[cfg(feature = "test-util")]
    pub fn for_test(checks: &[Check<'_>], outcome: GroupOutcome) -> Self {
        let parts = checks.iter().zip(outcome.outcomes());
        let quotas = parts.map(|(check, outcome)| Quota::new(AppliedLimit::of(check), outcome.clone()));
        Self { quotas: quotas.collect(), outcome, style: RequestStyle::default() }
    }

    /// The outcome of the group that was denied: one for each limit that was checked, in the order of the
    /// source.
    ///
    /// Limits that were skipped have none. [Shadow limits](Quota::is_shadow) have one. If a `max` of 0 was
    /// computed for the request, only that limit has one.
    pub fn outcome(&self) -> &GroupOutcome {
        &self.outcome
    }

    /// The quotas of all limits that were checked, those of middleware around the handler included, as of the
    /// denial. [Shadow limits](Quota::is_shadow) are among them; the response does not show them.
    pub fn quotas(&self) -> &[Quota] {
        &self.quotas
    }

    /// The quota with the longest wait.
    pub fn tightest(&self) -> Option<&Quota> {
        self.with_quotas(tightest)
    }

    /// The shortest wait, exact to the microsecond, after which this request passes if no other request is
    /// charged meanwhile. If middleware around the handler admitted the request and has nothing left, the
    /// wait lasts until it has a unit again.
    ///
    /// The client gets whole seconds, rounded up, at most 2,147,483. `None` if the request can never pass,
    /// because it costs more than a limit, and if only slots of a concurrency limit are missing, because no
    /// process knows when one is freed.
    pub fn retry_after(&self) -> Option<Duration> {
        let wait = self.outcome.retry_after()?;
        Some(self.with_quotas(retry_after).map_or(wait, |longer| longer.max(wait)))
    }

    /// Calls `read` with the quotas that the client sees.
    fn with_quotas<'a, R>(&'a self, read: impl FnOnce(&[&'a Quota]) -> R) -> R {
        read(&shown(&self.quotas))
    }
}

// `Logger` prints it for each denial: the tightest limit, and the wait that the client gets.
impl fmt::Debug for RateLimited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("RateLimited");
        fields.field("limit", &self.tightest().map(Quota::name).unwrap_or_default());
        if let Some(wait) = self.retry_after() {
            fields.field("retry_after", &Duration::from_secs(retry_after_seconds(wait)));
        }
        fields.finish()
    }
}

impl ResponseError for RateLimited {
    fn status_code(&self) -> StatusCode {
        StatusCode::TOO_MANY_REQUESTS
    }

    fn error_response(&self) -> HttpResponse {
        let retry_after = self.retry_after().map(retry_after_seconds);
        self.with_quotas(|quotas| {
            let names = unique_names(quotas);
            let violated: SmallVec<[&str; 2]> = quotas
                .iter()
                .zip(&names)
                .filter(|(quota, _)| !quota.outcome().is_allowed())
                .map(|(_, name)| name.as_ref())
                .collect();
            let info = RejectionInfo {
                status: self.status_code(),
                retry_after,
                violated: &violated,
                at_a_time: at_a_time(quotas),
            };
            let mut response = self.style.render(&info);
            write(self.style.headers(), quotas, response.headers_mut());
            response
        })
    }
}

/// How many requests may run at a time, if that is all that denied the request.
fn at_a_time(quotas: &[&Quota]) -> Option<u64> {
    let mut denied = quotas.iter().map(|quota| quota.outcome()).filter(|outcome| !outcome.is_allowed());
    let first = denied.next().filter(|first| first.is_busy())?;
    denied.all(Outcome::is_busy).then(|| first.capacity())
}

/// Defines a rejection with a status, a wait in seconds, and nothing else.
macro_rules! plain_rejection {
    ($(#[$attribute:meta])+ $name:ident, $status:ident, $retry_after:expr) => {
        $(#[$attribute])+
        pub struct $name(pub(crate) RequestStyle);

        impl $name {
            const RETRY_AFTER_SECONDS: Option<u64> = $retry_after;

            /// A rejection to test an error handler with. Its response has the default style.
            #[cfg(feature = "test-util")]
            pub fn for_test() -> Self {
                Self(RequestStyle::default())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }

        impl ResponseError for $name {
            fn status_code(&self) -> StatusCode {
                StatusCode::$status
            }

            fn error_response(&self) -> HttpResponse {
                let retry_after = Self::RETRY_AFTER_SECONDS;
                let status = self.status_code();
                self.0.render(&RejectionInfo { status, retry_after, violated: &[], at_a_time: None })
            }
        }
    };
}

plain_rejection! {
    /// The store did not answer, and the limit fails closed: 503, to be retried after a second, because it is
    /// unknown how long an outage lasts.
    #[derive(Clone, thiserror::Error)]
    #[error("the store of the rate limiter cannot answer")]
    Unavailable, SERVICE_UNAVAILABLE, Some(1)
}

plain_rejection! {
    /// The request has no caller, such as a request without the header field that `by` reads: 400.
    #[derive(Clone, thiserror::Error)]
    #[error("the request has no caller to be counted for")]
    MissingCaller, BAD_REQUEST, None
}

/// Why a request is rejected. An [error handler] gets it.
///
/// [error handler]: crate::RateLimitConfigBuilder::error_handler
#[derive(Clone, Debug, thiserror::Error)]
#[error(transparent)]
#[non_exhaustive]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all rejections are the large one, which would take an allocation"
)]
pub enum Rejection {
    /// A limit denied the request.
    RateLimited(RateLimited),
    /// The store did not answer, and the limit fails closed.
    Unavailable(Unavailable),
    /// The request has no caller.
    MissingCaller(MissingCaller),
}

impl Rejection {
    /// The shortest wait after which the request may pass: that of [`RateLimited::retry_after`], or 1 s if
    /// the store did not answer. `None` if another attempt is pointless, or if only slots are missing.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited(limited) => limited.retry_after(),
            Self::Unavailable(_) => Unavailable::RETRY_AFTER_SECONDS.map(Duration::from_secs),
            Self::MissingCaller(_) => MissingCaller::RETRY_AFTER_SECONDS.map(Duration::from_secs),
        }
    }

    /// The value of `Retry-After` in seconds.
    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after().map(retry_after_seconds)
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

#[cfg(test)]
mod tests {
    use actix_web::body::{BodySize, MessageBody as _};
    use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
    use ratelimit_core::{Decision, Timestamp};

    use super::*;

    fn limited(retry_after_us: Option<u64>) -> RateLimited {
        let decision = Decision::Denied { retry_after: retry_after_us.map(Duration::from_micros) };
        let outcome = Outcome::new(10, decision).with_reset_after(Duration::from_secs(60));
        let outcome = GroupOutcome::new(Timestamp::from_micros(0), [outcome]);
        RateLimited::new(outcome, Vec::new(), RequestStyle::default())
    }

    /// Status, `Retry-After` and body, after checking what every rejection has.
    fn response(error: &dyn ResponseError) -> (u16, Option<String>, String) {
        let response = error.error_response();
        assert_eq!(response.headers().get(CONTENT_TYPE).unwrap(), "application/json");
        assert_eq!(response.headers().get(X_CONTENT_TYPE_OPTIONS).unwrap(), "nosniff");
        assert_eq!(response.headers().get(CACHE_CONTROL).unwrap(), "no-store");
        assert_eq!(response.status(), error.status_code());
        let retry_after = response.headers().get(RETRY_AFTER);
        let retry_after = retry_after.map(|value| value.to_str().unwrap().to_owned());
        let status = response.status().as_u16();
        assert!(matches!(response.body().size(), BodySize::Sized(_)));
        let body = response.into_body().try_into_bytes().unwrap();
        (status, retry_after, String::from_utf8(body.to_vec()).unwrap())
    }

    #[test]
    fn a_denial_reports_when_to_retry() {
        let body = r#"{"error":"Too Many Requests","message":"Rate limit exceeded. Try again in 42 seconds.","retryAfter":42}"#;
        let expected = (429, Some("42".into()), body.into());
        assert_eq!(response(&limited(Some(41_000_001))), expected);
    }

    #[test]
    fn one_second_is_singular() {
        let body = r#"{"error":"Too Many Requests","message":"Rate limit exceeded. Try again in 1 second.","retryAfter":1}"#;
        let expected = (429, Some("1".into()), body.into());
        assert_eq!(response(&limited(Some(1))), expected);
    }

    /// In each form: a client may read any of them.
    #[test]
    fn a_long_wait_is_one_that_timers_take() {
        let limited = limited(Some(2_815_858_000_000));
        let body = r#"{"error":"Too Many Requests","message":"Rate limit exceeded. Try again in 2147483 seconds.","retryAfter":2147483}"#;
        assert_eq!(response(&limited), (429, Some("2147483".into()), body.into()));
        assert_eq!(format!("{limited:?}"), r#"RateLimited { limit: "", retry_after: 2147483s }"#);
        assert_eq!(limited.retry_after(), Some(Duration::from_secs(2_815_858)), "the true wait");
    }

    #[test]
    fn a_request_that_can_never_pass_gets_no_retry_after() {
        let (status, retry_after, body) = response(&limited(None));
        assert_eq!((status, retry_after), (429, None));
        assert!(!body.contains("retryAfter") && !body.contains("again"), "{body}");
    }

    #[test]
    fn an_unavailable_store_is_not_named() {
        let (status, retry_after, body) = response(&Unavailable(RequestStyle::default()));
        assert_eq!((status, retry_after.as_deref()), (503, Some("1")));
        assert!(!body.contains("store") && !body.contains("Redis"), "{body}");
    }

    #[test]
    fn a_missing_caller_is_a_bad_request() {
        let (status, retry_after, _) = response(&MissingCaller(RequestStyle::default()));
        assert_eq!((status, retry_after), (400, None));
    }

    #[test]
    fn rejections_can_be_sent_to_another_thread() {
        fn assert_send_sync<T: Clone + Send + Sync + 'static>() {}
        assert_send_sync::<Rejection>();
    }
}
