//! Why a limit was not charged or settled.

use std::panic::Location;

use actix_web::http::StatusCode;
use actix_web::http::header::CACHE_CONTROL;
use actix_web::{HttpResponse, ResponseError};
use ratelimit_core::__private_0_1::{help, is_first};
use ratelimit_core::{SettleError, StoreError};

/// A limit was not charged or settled: the error of [`Quotas::charge_up_to`](crate::Quotas::charge_up_to),
/// [`Quotas::limit`](crate::Quotas::limit) and [`LimitCharge`](crate::LimitCharge).
///
/// As the error of a handler it is a 500, or a 503 if the store did not answer, that does not describe it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuotaError {
    /// No limit of the request has the name.
    #[error("no limit of this request has the name `{name}`; expected one of: {}", list(.limits))]
    #[non_exhaustive]
    UnknownLimit {
        /// The name that the handler has written.
        name: String,
        /// The names of the limits of the request.
        limits: Vec<String>,
    },

    /// The limit is settled, or will be when a [`SettleOnDrop`](crate::SettleOnDrop) is dropped. Nothing was
    /// charged again.
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

    /// The limit charges after the response, and nothing before.
    #[error(
        "the limit `{limit}` charges after the response, so there is nothing to settle; charge it before, or let \
         its `count` decide"
    )]
    #[non_exhaustive]
    ChargedAfter {
        /// The name of the limit.
        limit: String,
    },

    /// The limiter did not charge or settle it: the cost is too high, the limit is a concurrency limit, turns
    /// behind the charge are not due, or the store did not answer.
    #[error(transparent)]
    Limiter(#[from] SettleError),
}

impl From<StoreError> for QuotaError {
    fn from(error: StoreError) -> Self {
        Self::Limiter(error.into())
    }
}

fn list(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "none, because no limit was checked".to_owned() } else { names.join(", ") }
}

impl QuotaError {
    /// No limit of the request has the name. It is logged once for each place in the source, and without the
    /// name, which the handler may have from the request.
    #[cold]
    pub(super) fn unknown_limit(name: &str, limits: Vec<String>, place: &'static Location<'static>) -> Self {
        if is_first("unknown-limit", place) {
            tracing::error!(
                %place,
                expected = list(&limits),
                help = help("unknown-limit"),
                "a handler selects a limit by a name that no limit of its request has"
            );
        }
        Self::UnknownLimit { name: name.to_owned(), limits }
    }
}

impl ResponseError for QuotaError {
    fn status_code(&self) -> StatusCode {
        match self {
            Self::Limiter(SettleError::Store(_)) => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn error_response(&self) -> HttpResponse {
        HttpResponse::build(self.status_code()).insert_header((CACHE_CONTROL, "no-store")).finish()
    }
}
