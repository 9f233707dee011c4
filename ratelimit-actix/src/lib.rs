//! Rate limits for [Actix-web] handlers, one attribute each: exact, decided before the body is read, counted in this
//! process or across all that share a Redis.
//!
//! ```no_run
//! use actix_web::{App, HttpServer, Responder, get, web};
//! use ratelimit_actix::{RateLimiter, rate_limit};
//!
//! #[rate_limit(max = 10, window = "60s", key = "user-api")]
//! #[get("/user/{user_id}")]
//! async fn user(user_id: web::Path<u64>) -> impl Responder {
//!     format!("user {user_id}")
//! }
//!
//! #[actix_web::main]
//! async fn main() -> std::io::Result<()> {
//!     let limiter = RateLimiter::in_memory();
//!     HttpServer::new(move || App::new().app_data(web::Data::new(limiter.clone())).service(user))
//!         .bind(("127.0.0.1", 8080))?
//!         .run()
//!         .await
//! }
//! ```
//!
//! The eleventh request of one client within a minute gets 429. What can be written in the attribute is described at
//! [`rate_limit`](macro@rate_limit), what an algorithm promises at [`Algorithm`].
//!
//! # Which limiter counts
//!
//! Make one [`RateLimiter`] and clone it: two of them count apart. In `HttpServer::new(|| ..)` the closure runs once for
//! each worker, so make it outside. A handler asks
//!
//! 1. the nearest one in the data of its resource, scope or app, as `app_data(limiter.clone())` or
//!    `app_data(web::Data::new(limiter.clone()))`; where both forms are around a handler, the nearest `web::Data`;
//! 2. otherwise the one that was [installed](RateLimiter::install) for the process;
//! 3. otherwise one in memory, which is made when it is first needed, with one warning in the log.
//!
//! # What is counted
//!
//! Every request that reaches the handler, whether it then succeeds or fails, and whether or not its arguments can be
//! extracted, unless `count` or `skip` says otherwise. Not `OPTIONS`, unless it is asked for; `HEAD` shares the count of
//! `GET`. A handler that is mounted twice, or for several methods, has one count for all. Handlers
//! with the same `key` share a count; without `key` each has its own.
//!
//! [`declared_limits`] lists every limit of the program.
//!
//! A request with several limits takes from all of them or from none. One that is denied takes nothing.
//!
//! # What the client sees
//!
//! | | status | fields | body |
//! |---|---|---|---|
//! | passed | the handler's | `X-RateLimit-Limit`, `X-RateLimit-Remaining`, `X-RateLimit-Reset` | the handler's |
//! | denied ([`RateLimited`]) | 429 | the same, and `Retry-After` unless it can never pass | JSON |
//! | the store cannot answer, and the limit [denies](OnError::Deny) then ([`Unavailable`]) | 503 | `Retry-After: 1` | JSON |
//! | nobody to count it for, unless `on_missing` says otherwise ([`MissingCaller`]) | 400 | | JSON |
//!
//! These are the defaults; a [`RateLimitConfig`] in app data chooses other fields and bodies, and whose address counts
//! behind proxies. `X-RateLimit-Reset`, in Unix seconds, is when one more unit passes while nothing is left, and when the full
//! quota is back otherwise; on a denial it is when the request passes, as `Retry-After`, which is a number of seconds, at least
//! 1. Both are rounded up. With several limits, the tightest is told. A handler's own fields of these names are replaced.
//!
//! The body of a denied request is not looked at. One of up to 16 KiB is read and dropped, for a second at most, so that the
//! connection stays open; after any other the connection is closed. `Expect: 100-continue` is answered by Actix, before any
//! limit is asked.
//!
//! Whole scopes are limited with the [`RateLimitMiddleware`] middleware. A handler that takes [`Quotas`] as an argument sees what is
//! left.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `redis` | yes | `RateLimiter::redis`: limits shared through Redis |
//! | `uuid` | no | `uuid::Uuid` as a caller |
//! | `redis-tls` | no | Redis over TLS: `rediss://` and its relatives |
//! | `metrics` | no | `metrics`: counters and histograms for the `metrics` facade |
//! | `test-util` | no | `clock::FakeClock`, and `conformance`, the suite that checks a store of your own |
//!
//! [Actix-web]: https://actix.rs

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod address;
pub mod caller;
mod config;
mod decision;
mod handler;
mod middleware;
mod quotas;
mod response;
mod unlimited;

pub use ratelimit_core as core;
pub use ratelimit_core::{
    Algorithm, Check, ConfigError, Decision, GroupOutcome, MAX_GROUP, MemoryStore, OnError, Outcome, Policy,
    PolicyBuilder, PolicyError, RateLimiter, RateLimiterBuilder, Reservation, StoreError, Taken, Timestamp,
};
#[cfg(feature = "redis")]
pub use ratelimit_core::{RedisStore, RedisStoreBuilder};
pub use ratelimit_macros::no_rate_limit;
#[doc = include_str!("attribute.md")]
pub use ratelimit_macros::rate_limit;

pub use crate::address::ForwardedHeader;
pub use crate::caller::client_ip::client_ip;
pub use crate::caller::into_caller::IntoCaller;
pub use crate::caller::on_missing::OnMissing;
pub use crate::caller::principal::Principal;
pub use crate::caller::value::Caller;
pub use crate::config::{RateLimitConfig, RateLimitConfigBuilder, RateLimitConfigError};
pub use crate::handler::registry::{DeclaredLimit, declared_limits};
pub use crate::middleware::{Limit, RateLimitMiddleware, RateLimitMiddlewareService};
pub use crate::quotas::{Quota, Quotas};
pub use crate::response::{
    BodyStyle, HeaderStyle, MissingCaller, RateLimited, RejectionInfo, Rejection, Unavailable,
};
pub use crate::unlimited::Unlimited;
