//! The Redis store on a server that works: what is stored, what it costs, and what other programs may leave
//! at its keys.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "some of these tests are about real waits")]

mod blocks;
mod client;
mod denial_cache;
mod expiry;
mod foreign_values;
mod forks;
mod leases;
mod log_bounds;
mod log_step;
mod scripts;
mod settlements;
mod slots;
mod status;
mod tampered;
mod valgrind;
mod waits;

use std::time::{Duration, Instant};

use ratelimit_core::{Algorithm, OnError, Policy, RateLimiter};
use redis::AsyncCommands;
use tests::redis::Server;

/// Denies when the store cannot answer, so that an answer is the store's.
static MINUTE: Policy =
    Policy::builder("minute").max(3).window(Duration::from_secs(60)).on_error(OnError::Deny).build();

fn policy(algorithm: Algorithm, max: u64, window: Duration) -> Policy {
    Policy::builder("k").algorithm(algorithm).max(max).window(window).on_error(OnError::Deny).build()
}

/// The only key that is stored, besides those with which a limiter that connects meanwhile probes the server.
async fn only_key(server: &Server) -> String {
    let mut keys: Vec<String> = server.raw().await.keys("*").await.unwrap();
    keys.retain(|key| !key.starts_with("rl1:probe:"));
    assert_eq!(keys.len(), 1, "{keys:?}");
    keys.into_iter().next().unwrap()
}

/// Peeks until the limiter decides, for ten seconds at most.
async fn decides(limiter: &RateLimiter) -> bool {
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        if limiter.peek(&MINUTE, "probe").await.is_ok() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    false
}
