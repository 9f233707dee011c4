//! Exact rate limiting, in process or across instances through Redis, without HTTP.
//!
//! A [`Policy`] says how much is allowed, over how long, and by which [`Algorithm`]. A [`RateLimiter`] asks a
//! [store](store::Store) to judge it for one caller, and answers with an [`Outcome`]: passed or not, what is left,
//! and exactly when to come back.
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
//! For Actix-web handlers there is `#[rate_limit]` in `ratelimit-actix`; this crate is for everything else, such as job
//! queues and gRPC services.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `redis` | yes | [`RedisStore`] and [`RateLimiter::redis`] |
//! | `redis-tls` | no | `rediss://` and its relatives, `RedisStoreBuilder::root_certificate_pem` |
//! | `metrics` | no | `metrics`: counters and histograms for the [`metrics`](https://docs.rs/metrics) facade |
//! | `test-util` | no | `FakeClock`, and `conformance`, the suite that checks a store of your own |

pub mod algorithm;
mod check;
pub mod clock;
#[cfg(feature = "test-util")]
pub mod conformance;
mod error;
mod fallback;
mod limiter;
mod log_limit;
#[cfg(feature = "metrics")]
pub mod metrics;
mod outcome;
pub mod policy;
mod reservation;
pub mod store;

pub use check::{Check, MAX_GROUP};
pub use clock::Timestamp;
pub use error::{ConfigError, StoreError};
pub use limiter::{RateLimiter, RateLimiterBuilder};
pub use outcome::{Decision, GroupOutcome, Outcome};
pub use policy::{Algorithm, OnError, Policy, PolicyBuilder, PolicyError};
pub use reservation::{Reservation, Taken};
pub use store::memory::MemoryStore;
#[cfg(feature = "redis")]
pub use store::redis::{RedisStore, RedisStoreBuilder};
