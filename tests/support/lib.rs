//! What the integration tests share: real servers, the demo service as a process, limiters whose time the
//! test sets, stores that misbehave on command, requests and answers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    missing_docs,
    reason = "test support: a panic is the report"
)]

/// The code of the pages is compiled, and what is a test in it is run. Here, since a package of a crate has
/// no pages.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../README.md")]
    struct Readme;

    #[doc = include_str!("../../docs/who-is-the-client.md")]
    struct WhoIsTheClient;

    #[doc = include_str!("../../docs/leases.md")]
    struct Leases;

    #[doc = include_str!("../../docs/concurrency.md")]
    struct Concurrency;

    #[doc = include_str!("../../docs/without-http.md")]
    struct WithoutHttp;

    #[doc = include_str!("../../docs/arguments.md")]
    struct Arguments;

    #[doc = include_str!("../../docs/responses.md")]
    struct Responses;

    #[doc = include_str!("../../docs/middleware.md")]
    struct Middleware;

    #[doc = include_str!("../../docs/costs.md")]
    struct Costs;

    #[doc = include_str!("../../docs/testing.md")]
    struct Testing;

    #[doc = include_str!("../../docs/operating.md")]
    struct Operating;

    #[doc = include_str!("../../docs/overrides.md")]
    struct Overrides;

    #[doc = include_str!("../../ratelimit-core/README.md")]
    struct Core;

    #[doc = include_str!("../../ratelimit-actix/README.md")]
    struct Facade;
}

pub mod algorithms;
pub mod answer;
pub mod client;
pub mod clock;
pub mod cluster;
pub mod contention;
pub mod demo;
pub mod flapping;
pub mod flood;
pub mod holders;
pub mod lane;
pub mod lessees;
pub mod load;
pub mod log;
pub mod noise;
pub mod outage;
pub mod own_process;
pub mod payload;
pub mod process;
pub mod program;
pub mod proxy;
pub mod random;
pub mod redis;
pub mod sentinel;
pub mod service;
pub mod sharding;
mod slots;
pub mod store;
pub mod strategies;
pub mod timed;
pub mod timeline;
pub mod tls;

pub use answer::{Answer, send};

use std::time::{Duration, Instant};

use ratelimit_core::Timestamp;
use ratelimit_core::clock::FakeClock;

/// An instant in 2026, in microseconds, so that all digits of a real clock are in play.
pub const START: u64 = 1_790_000_000_123_456;

/// A clock that stands at [`START`].
pub fn clock_at_start() -> FakeClock {
    FakeClock::at(Timestamp::from_micros(START))
}

/// Whether `condition` comes true within `limit`.
#[allow(clippy::disallowed_methods, reason = "a deadline for a real process, not logic")]
pub fn within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
