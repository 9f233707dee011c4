//! Errors of settling a limit.

use std::panic::Location;
use std::sync::{Mutex, PoisonError};

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, ResponseError};
use ratelimit_core::__private_0_1::help;
use ratelimit_core::SettleError as LimiterError;

/// No limit of the request has the name: the error of [`Quotas::limit`](crate::Quotas::limit).
///
/// As the error of a handler it is a 500 that does not describe it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no limit of this request has the name `{name}`; expected one of: {}", list(.limits))]
pub struct UnknownLimitError {
    name: String,
    limits: Vec<String>,
}

fn list(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "none, because no limit was checked".to_owned() } else { names.join(", ") }
}

impl UnknownLimitError {
    pub(super) fn new(name: &str, limits: Vec<String>) -> Self {
        Self { name: name.to_owned(), limits }
    }

    /// Logs the error, once for each place in the source. Without the name: the handler may have it from the request.
    #[cold]
    pub(super) fn log_once(&self, place: &'static Location<'static>) {
        static LOGGED: Mutex<Vec<&Location<'_>>> = Mutex::new(Vec::new());
        let mut logged = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.contains(&place) {
            return;
        }
        logged.push(place);
        drop(logged);
        tracing::error!(
            %place,
            expected = list(&self.limits),
            help = help("unknown-limit"),
            "a handler selects a limit by a name that no limit of its request has"
        );
    }

    /// The name that was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of the limits of the request.
    pub fn limits(&self) -> &[String] {
        &self.limits
    }
}

impl ResponseError for UnknownLimitError {
    fn error_response(&self) -> HttpResponse {
        HttpResponse::new(self.status_code())
    }
}

/// A limit was not settled: the error of [`LimitCharge`](crate::LimitCharge).
///
/// As the error of a handler it is a 500, or a 503 if the store did not answer, that does not describe it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettleError {
    /// The limit is settled, or will be when a [`SettleOnDrop`](crate::SettleOnDrop) is dropped. Nothing was charged again.
    #[error("the limit `{limit}` is settled already; settle a limit at most once for each request")]
    #[non_exhaustive]
    AlreadySettled {
        /// The name of the limit.
        limit: String,
    },

    /// The charge is gone: it was refunded after the response, which does not [count](crate::rate_limit).
    #[error(
        "the charge of the limit `{limit}` was refunded, because the response does not count; settle it before \
         the handler returns"
    )]
    #[non_exhaustive]
    Refunded {
        /// The name of the limit.
        limit: String,
    },

    /// The limiter did not settle it: the cost is too high, the limit is a concurrency limit, or the store did not answer.
    #[error(transparent)]
    Limiter(#[from] ratelimit_core::SettleError),
}

impl ResponseError for SettleError {
    fn status_code(&self) -> StatusCode {
        match self {
            Self::Limiter(LimiterError::Store(_)) => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn error_response(&self) -> HttpResponse {
        HttpResponse::new(self.status_code())
    }
}
