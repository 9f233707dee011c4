//! Which responses count under a limit.

use actix_web::http::StatusCode;

/// Which responses count: what `count` of the attribute says, for a [`Limit`](crate::Limit) of middleware.
///
/// Each request is charged before its response is known. If the response does not count, the charge is refunded.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub enum Count {
    /// Every response.
    #[default]
    All,
    /// Responses with a status of 400 or more.
    Failures,
    /// Responses with a status below 400.
    Successes,
    /// Responses for whose status the function returns true; a closure that captures nothing is one.
    When(fn(StatusCode) -> bool),
}

impl Count {
    /// The condition on the status. `None` if every response counts.
    pub(crate) const fn condition(self) -> Option<Condition> {
        match self {
            Self::All => None,
            Self::Failures => Some(is_failure),
            Self::Successes => Some(is_success),
            Self::When(condition) => Some(condition),
        }
    }
}

/// Whether a response with this status counts.
pub(crate) type Condition = fn(StatusCode) -> bool;

fn is_failure(status: StatusCode) -> bool {
    status.as_u16() >= 400
}

fn is_success(status: StatusCode) -> bool {
    !is_failure(status)
}
