//! Rate limiting without HTTP, exact by the rule of the chosen algorithm, in process or across instances
//! through Redis.
//!
//! A [`Policy`] says how many units are allowed, in which window, and which [`Algorithm`] counts them. A
//! [`RateLimiter`] decides with a [store](store::Store) whether a request of one caller passes, and returns
//! an [`Outcome`]: allowed or denied, what remains, and exactly when to retry.
//!
//! # Words
//!
//! * A **caller** is whatever a limit is counted for: an address, a user, a tenant. Here it is a *partition*
//!   of bytes.
//! * A **check** is one policy, one partition and a cost. A **group** of checks is decided at one instant,
//!   all or nothing. In a Redis cluster, a group with several callers is charged caller by caller, and
//!   refunded if one of them is denied.
//! * A **denial** is an outcome, not an error. Its wait is exact: one microsecond earlier the request is
//!   denied again.
//! * A **reservation** is what a group was charged; a **refund** returns it.
//! * A **concurrency limit** counts what runs at a time instead of what comes over time: a request takes a
//!   **slot** and holds it until its work ends. See [`Policy::concurrency`].
//! * During an **outage** of the store each limit follows the [`OnError`] of its policy: the limit counts in
//!   this process, fails closed or fails open.
//!
//! ```
//! use std::time::Duration;
//! use ratelimit_core::{Policy, RateLimiter};
//!
//! static JOBS: Policy = Policy::new("jobs", 100, Duration::from_secs(60));
//!
//! # async fn work() -> Result<(), ratelimit_core::StoreError> {
//! let limiter = RateLimiter::in_memory();
//! let outcome = limiter.check(&JOBS, "tenant-42").await?;
//! if !outcome.is_allowed() {
//!     println!("try again in {:?}", outcome.retry_after());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Actix-web handlers use `#[rate_limit]` of `ratelimit-actix`; this crate is for everything else, such as
//! job queues and gRPC services.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `redis` | yes | `RedisStore` and `RateLimiter::redis` |
//! | `redis-tls` | no | URLs with TLS, such as `rediss://`, by rustls with aws-lc-rs; `RedisStoreBuilder::root_certificate_file` and `client_certificate_files`, or `_pem` for texts. No provider is installed for the process |
//! | `redis-tls-no-provider` | no | the same with the provider that the process has installed before: for a program whose rustls has another, such as ring, since rustls cannot choose between two |
//! | `metrics` | no | `metrics`: counters and histograms for the [`metrics`](https://docs.rs/metrics) facade |
//! | `stats` | no | [`RateLimiter::stats`] and [`RateLimiter::store_status`]: what each limit decided, who was denied most, how the store is; `Serialize` for these numbers |
//! | `serde` | no | `Serialize` and `Deserialize` of [`Policy`], [`Algorithm`], [`Mode`], [`OnError`] and [`policy::Window`] |
//! | `overrides` | no | `Overrides`: other numbers for limits, from a file that is read again when it changes |
//! | `calendar` | no | `policy::Calendar`: windows of days, weeks, months and years of a time zone |
//! | `test-util` | no | `FakeClock`, and `conformance`, the test suite for a store of your own |

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private_0_1;
mod algorithm;
mod check;
pub mod clock;
#[cfg(feature = "test-util")]
pub mod conformance;
mod error;
mod fallback;
mod limiter;
mod observe;
mod outcome;
pub mod overrides;
pub mod policy;
mod process;
mod reservation;
mod slots;
pub mod store;
mod timer;

pub use check::{Check, MAX_GROUP};
pub use clock::Timestamp;
pub use error::{Cause, SettleError, StoreError, WaitError};
pub use limiter::{InstallError, RateLimiter, RateLimiterBuilder};
#[cfg(feature = "metrics")]
pub use observe::metrics;
#[cfg(feature = "stats")]
pub use observe::stats;
pub use outcome::{Decision, GroupOutcome, Outcome};
pub use overrides::InForce;
#[cfg(feature = "overrides")]
pub use overrides::{Overrides, OverridesError};
pub use policy::{Algorithm, Mode, OnError, Policy, PolicyBuilder, PolicyError, Settings};
pub use reservation::{Charge, Reservation};
pub use slots::Slots;
pub use store::memory::MemoryStore;
#[cfg(feature = "redis")]
pub use store::redis::{Breaker, RedisConfigError, RedisCredentials, RedisStore, RedisStoreBuilder};
