//! Which responses count.

use actix_web::http::StatusCode;

/// Which responses count. Requests with any other response get a refund.
#[derive(Clone, Copy, Debug)]
pub enum Count {
    /// Every response.
    All,
    /// Responses with a status of 400 or more.
    Failures,
    /// Responses with a status below 400.
    Successes,
    /// Responses for whose status the function returns true.
    When(fn(StatusCode) -> bool),
}

impl Count {
    /// Whether a response with this status counts.
    pub(crate) fn includes(self, status: StatusCode) -> bool {
        match self {
            Self::All => true,
            Self::Failures => is_failure(status),
            Self::Successes => !is_failure(status),
            Self::When(includes) => includes(status),
        }
    }

    /// Whether some responses lead to a refund.
    pub(crate) const fn may_refund(self) -> bool {
        !matches!(self, Self::All)
    }
}

fn is_failure(status: StatusCode) -> bool {
    status.as_u16() >= 400
}
