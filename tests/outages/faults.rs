//! Faults of real Redis servers: which outcome a request gets, how long it waits at most, and how soon limits
//! are shared again. Each test prints what it measured; `docs/when-redis-fails.md` has the figures.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real waits")]

mod auth;
mod clock;
mod data_loss;
mod load;
mod network;
mod observability;
mod process;
mod server;
mod tls;

use std::time::Duration;

use ratelimit_core::{RateLimiter, RedisStore};
use tests::outage::Outage;

const SECOND: Duration = Duration::from_secs(1);

/// A fault from beginning to end: a server that works, fails, and works again.
async fn fail_and_recover(
    name: &str,
    url: &str,
    fail: impl FnOnce(),
    repair: impl FnOnce(),
    limit: Duration,
) {
    let mut outage = Outage::of(name, url);
    outage.until_up().await;
    fail();
    outage.until_noticed().await;
    outage.policies_apply().await;
    outage.lasts().await;
    repair();
    outage.ends_within(limit).await;
}

/// A limiter with long deadlines, for tests that count on a busy machine.
fn patient(url: &str) -> RateLimiter {
    let store = RedisStore::builder(url).deadline(20 * SECOND).connect_timeout(20 * SECOND);
    // These tests are about the server, so every check goes there.
    RateLimiter::new(store.denial_cache_ttl(Duration::ZERO).build().unwrap())
}
