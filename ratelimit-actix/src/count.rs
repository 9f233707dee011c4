//! Conditions on the status of a response, for [`Limit::count`](crate::Limit::count): those that `count =
//! "failures"` and `count = "successes"` name in the attribute.

use actix_web::http::StatusCode;

/// Whether the status is 400 or more.
pub fn failures(status: StatusCode) -> bool {
    status.as_u16() >= 400
}

/// Whether the status is below 400.
pub fn successes(status: StatusCode) -> bool {
    !failures(status)
}
