//! Rate limits for [Actix-web] handlers, exact by the rule of the chosen algorithm.
//!
//! Each `#[rate_limit]` declares one limit. The request is admitted or denied before its body is read. Counts
//! are in this process by default; with Redis all processes share them.
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
//! Send eleven requests within one clock minute: the eleventh gets 429. [`rate_limit`](macro@rate_limit)
//! documents the arguments of the attribute, [`Algorithm`] the guarantees of the algorithms. The [guide] has
//! recipes, and the meaning of every line of the log.
//!
//! # Which limiter counts
//!
//! Make one [`RateLimiter`] and clone it: two limiters count apart. The closure of `HttpServer::new(|| ..)`
//! runs once for each worker, so make the limiter outside. A handler uses
//!
//! 1. the nearest limiter in the data of its resource, scope or app, as `app_data(limiter.clone())` or
//!    `app_data(web::Data::new(limiter.clone()))`; `web::Data` wins if both forms are around a handler;
//! 2. otherwise the one that is [installed](RateLimiter::install) for the process;
//! 3. otherwise one in memory, which is made on first use, with one warning in the log.
//!
//! # What is counted
//!
//! Every request that reaches the handler counts, whether it then succeeds or fails, and also if its
//! arguments cannot be extracted. `count` and `skip` make exceptions. `OPTIONS` counts only if
//! [configured](RateLimitConfigBuilder::count_options); `HEAD` shares the count of `GET`. A handler that is
//! mounted twice, or for several methods, has one count for all. Handlers with the same `key` share a count;
//! without `key` each has its own.
//!
//! A request with several limits is charged to all of them or to none. A denied request is charged nothing.
//!
//! [`declared_limits`] lists every limit of the program.
//!
//! # What the client sees
//!
//! | | status | fields | body |
//! |---|---|---|---|
//! | passed | the handler's | `X-RateLimit-Limit`, `X-RateLimit-Remaining`, `X-RateLimit-Reset` | the handler's |
//! | denied ([`RateLimited`]) | 429 | the same, and `Retry-After` unless it can never pass, or only slots are missing | JSON |
//! | the store does not answer, and the limit [fails closed](OnError::Deny) ([`Unavailable`]) | 503 | `Retry-After: 1` | JSON |
//! | without a caller, unless `on_missing` says otherwise ([`MissingCaller`]) | 400 | | JSON |
//!
//! These are the defaults. A [`RateLimitConfig`] in app data selects other fields and bodies, and lists
//! trusted proxies.
//!
//! `X-RateLimit-Reset` is an instant in Unix seconds, rounded up:
//!
//! * on a denial, the request passes then; `Retry-After` is the same wait in seconds, rounded up, at least 1
//!   s;
//! * with nothing left, one more unit passes then;
//! * otherwise, the full quota is back then.
//!
//! With several limits, the fields report the tightest. A handler's own fields of these names are replaced.
//!
//! The body of a rejected request is not parsed. A body of up to 16 KiB is read and dropped, for at most one
//! second, so that the connection stays open; after any other body the connection is closed, or the stream of
//! HTTP/2 reset. A rejection has `Cache-Control: no-store`, unless an error handler sets that field. Actix
//! answers `Expect: 100-continue` before any limit is checked.
//!
//! [`concurrency_limit`](macro@concurrency_limit) limits how many requests of a caller run at a time.
//!
//! The [`RateLimitMiddleware`] limits whole scopes. A handler that takes [`Quotas`] as an argument sees what
//! is left, and [settles](Quotas::limit) a limit to its true cost. [`admit`] checks limits by hand, if the
//! caller or the cost is in the body.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `redis` | yes | `RateLimiter::redis`: limits shared through Redis |
//! | `uuid` | no | `uuid::Uuid` as a caller |
//! | `redis-tls` | no | Redis over TLS: `rediss://` and its variants, by rustls with aws-lc-rs. No provider is installed for the process |
//! | `redis-tls-no-provider` | no | the same with the provider that the process has installed before: for a program whose rustls has another, such as ring, since rustls cannot choose between two |
//! | `metrics` | no | `ratelimit_core::metrics`: counters and histograms for the `metrics` facade |
//! | `stats` | no | `RateLimiter::stats` and `ratelimit_core::stats`: what each limit decided, who was denied most, how the store is |
//! | `admin` | no | `admin`: a scope for operators with a page and JSON about every limit; switches `stats` on |
//! | `serde` | no | `Serialize` and `Deserialize` of [`Policy`], [`Algorithm`] and [`OnError`] |
//! | `calendar` | no | windows of days, weeks, months and years of a time zone: `window = "month"`, `ratelimit_core::policy::Calendar` |
//! | `utoipa` | no | `RateLimitResponses`: limits in an OpenAPI document of utoipa 6 |
//! | `overrides` | no | `Overrides`: other numbers for limits, from a file that is read again when it changes |
//! | `test-util` | no | `ratelimit_core::clock::FakeClock`, constructors of rejections, and `ratelimit_core::conformance`, a suite that checks a store of your own |
//!
//! Events go to the `log` crate where no subscriber is set. For this, `tracing` has its feature `log` in the
//! whole program, for the events of all its crates.
//!
//! [Actix-web]: https://actix.rs
#![cfg_attr(docsrs, doc = "[guide]: crate::guide")]
#![cfg_attr(not(docsrs), doc = "[guide]: https://docs.rs/ratelimit-actix/latest/ratelimit_actix/guide/")]

mod address;
#[cfg(feature = "admin")]
mod admin;
mod applied_limit;
pub mod caller;
mod config;
pub mod count;
mod decision;
mod declared;
#[cfg(docsrs)]
pub mod guide;
mod handler;
mod middleware;
#[cfg(feature = "utoipa")]
mod openapi;
mod quotas;
mod request;
mod response;
mod shared_fn;
mod unlimited;
mod written_limit;

/// The limiter without HTTP: stores, clocks, algorithms. The items that most applications need are in the
/// root as well.
pub use ratelimit_core;
pub use ratelimit_core::{
    Algorithm, Check, Decision, GroupOutcome, InstallError, MAX_GROUP, MemoryStore, Mode, OnError, Outcome,
    Policy, PolicyBuilder, PolicyError, RateLimiter, RateLimiterBuilder, Reservation, Settings, Slots,
    StoreError,
};
#[cfg(feature = "redis")]
pub use ratelimit_core::{Breaker, RedisConfigError, RedisCredentials, RedisStore, RedisStoreBuilder};
#[cfg(feature = "overrides")]
pub use ratelimit_core::{InForce, Overrides, OverridesError};
#[doc = include_str!("concurrency.md")]
pub use ratelimit_macros::concurrency_limit;
pub use ratelimit_macros::no_rate_limit;
#[doc = include_str!("attribute.md")]
pub use ratelimit_macros::rate_limit;

pub use crate::address::{ForwardedHeader, NetworkList};
#[cfg(feature = "admin")]
pub use crate::admin::{Admin, admin};
pub use crate::caller::of_request::{Principal, client_ip};
pub use crate::caller::plan::{IntoPlan, Plan};
pub use crate::caller::reset::reset_caller;
pub use crate::caller::value::{Caller, IntoCaller, OnMissing};
pub use crate::config::{RateLimitConfig, RateLimitConfigBuilder, RateLimitConfigError};
pub use crate::decision::{Admitted, admit};
pub use crate::declared::{
    DeclaredLimit, DeclaredLimitsError, SharedCount, check_declared_limits, declared_limits,
};
pub use crate::middleware::{Limit, RateLimitMiddleware, RateLimitMiddlewareService};
#[cfg(feature = "utoipa")]
pub use crate::openapi::{RateLimitResponses, UnclearOperationsError};
pub use crate::quotas::{LimitCharge, Quota, QuotaError, Quotas, SettleOnDrop, UsageCounter};
pub use crate::request::nearest_limiter;
pub use crate::response::{
    BodyStyle, HeaderStyle, MissingCaller, RateLimited, Rejected, Rejection, RejectionInfo, Unavailable,
};
pub use crate::unlimited::Unlimited;
pub use crate::written_limit::count::Show;

/// What expansions of the attributes name. Not public: it changes without notice.
#[doc(hidden)]
pub mod __private_0_1 {
    pub use actix_web::web::Payload;
    pub use actix_web::{HttpRequest, HttpResponse};
    pub use inventory;
    #[cfg(feature = "calendar")]
    pub use ratelimit_core::policy::{Calendar, Weekday};
    pub use ratelimit_core::{Algorithm, Mode, OnError, Policy};

    pub use crate::caller::of_request::{principal, principal_or_ip};
    pub use crate::caller::plan::{IntoPlan, Plan};
    pub use crate::caller::value::{Caller, IntoCaller, OnMissing};
    pub use crate::declared::{Declaration, Declared};
    pub use crate::handler::bounds::{
        Answer, BodylessExtractor, ConstantPolicy, Extractor, RequestFn, TakesExtractors,
        TakesExtractorsAsync, assert_bodyless_extractor, assert_extractor, assert_policy,
    };
    pub use crate::handler::default_key::DefaultKey;
    pub use crate::handler::extracted::{Extracted, Failure, LaterValue, later, later_call};
    pub use crate::handler::{Admission, AdmittedRequest, admit, admit_computed, extract};
    pub use crate::written_limit::WrittenLimit;
    pub use crate::written_limit::by::By;
    #[cfg(feature = "calendar")]
    pub use crate::written_limit::computed::calendar_year;
    pub use crate::written_limit::computed::{Computed, PerRequest};
    pub use crate::written_limit::count::{ChargeTime, Count, Show};

    /// For attributes inside of a limited block, which need no import.
    pub mod attributes {
        pub use ratelimit_macros::{concurrency_limit, no_rate_limit, rate_limit};
    }
}
