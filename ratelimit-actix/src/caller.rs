//! Functions that find the caller of a request: for `by = ..` in the attribute, for
//! [`Limit::by`](crate::Limit::by), and for functions of your own.
//!
//! ```
//! use ratelimit_actix::{caller, rate_limit};
//!
//! #[rate_limit(max = 100, window = "1m", by = caller::principal_or_ip)]
//! #[actix_web::get("/orders")]
//! async fn orders() -> &'static str {
//!     "orders"
//! }
//! ```

pub(crate) mod counts;
mod look;
#[cfg(any(feature = "admin", feature = "overrides"))]
pub(crate) mod notation;
pub(crate) mod of_request;
pub(crate) mod plan;
pub(crate) mod reset;
pub(crate) mod value;

pub(crate) use self::of_request::is_exempt;
pub use self::of_request::{global, header, ip, path_param, principal, principal_or_ip};
pub(crate) use self::value::{Caller, IntoCaller, MissingCallerError, OnMissing, Partition};
