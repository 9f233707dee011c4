//! Functions that find the caller of a request: for `by = ..` in the attribute, for [`Limit::by`](crate::Limit::by), and for
//! functions of your own.
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

pub(crate) mod client_ip;
mod composite;
pub(crate) mod into_caller;
#[cfg(any(feature = "admin", feature = "overrides"))]
pub(crate) mod notation;
pub(crate) mod on_missing;
mod path_param;
pub(crate) mod principal;
pub(crate) mod reset;
pub(crate) mod value;

pub use self::client_ip::ip;
pub(crate) use self::client_ip::{by_address, is_exempt};
pub(crate) use self::into_caller::IntoCaller;
pub(crate) use self::on_missing::{MissingCallerError, OnMissing};
pub use self::path_param::path_param;
pub use self::principal::{principal, principal_or_ip};
pub(crate) use self::value::Caller;
