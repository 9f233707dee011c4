//! Which responses count under a limit, when they are charged, and which of them show it.

use actix_web::http::StatusCode;

use crate::count::{failures, successes};
use crate::shared_fn::SharedFn;

/// Which responses count.
#[derive(Clone, Debug)]
pub enum Count {
    /// Every response.
    All,
    /// Responses with a status of 400 or more.
    Failures,
    /// Responses with a status below 400.
    Successes,
    /// Responses for whose status the function returns true.
    When(fn(StatusCode) -> bool),
    /// Responses for whose status a closure of middleware returns true.
    Shared(SharedFn<StatusCode, bool>),
}

impl Count {
    pub(crate) const fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }

    /// Whether a response with this status counts.
    pub(crate) fn includes(&self, status: StatusCode) -> bool {
        match self {
            Self::All => true,
            Self::Failures => failures(status),
            Self::Successes => successes(status),
            Self::When(counts) => counts(status),
            Self::Shared(counts) => counts.call(&status),
        }
    }
}

/// When a request is charged under a limit of which some responses do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargeTime {
    /// Before its response is known; the charge is refunded if the response does not count.
    Before,
    /// When its response is known, and counts.
    After,
}

/// Which responses show a limit, in header fields and as the [tightest](crate::Quotas::tightest).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Show {
    /// Every response.
    Always,
    /// Only where the limit denies the request.
    Denied,
}
