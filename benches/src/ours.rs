//! Our limiter over Redis, as something that decides.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ratelimit_actix::{Algorithm, Policy, PolicyBuilder, RateLimiter, RedisStore};

use crate::caller::Caller;
use crate::drive::Decider;
use crate::{MAX, WINDOW};

/// The builder of every policy that is measured.
pub const fn builder() -> PolicyBuilder {
    Policy::builder("user-api").max(MAX).window(WINDOW)
}

/// The algorithms, with what the report calls them.
pub fn algorithms() -> [(&'static str, Policy); 5] {
    [
        ("fixed window", builder().algorithm(Algorithm::FixedWindow).build()),
        ("two windows", builder().build()),
        ("10 sub-windows", builder().sub_windows(10).build()),
        ("log", builder().algorithm(Algorithm::SlidingWindowLog).build()),
        ("token bucket", builder().algorithm(Algorithm::TokenBucket).build()),
    ]
}

/// A limiter and the policy that it checks.
#[derive(Clone, Debug)]
pub struct Ours {
    limiter: RateLimiter,
    policy: Arc<Policy>,
}

/// A limiter that is connected to the servers at `url`.
///
/// Its deadline is long, so that a busy machine never makes it count by itself: that would be fast, and no decision of
/// Redis.
///
/// # Panics
///
/// When it is not connected within 20 seconds.
pub fn connect(url: &str) -> RateLimiter {
    let limiter =
        RateLimiter::new(RedisStore::builder(url).deadline(Duration::from_secs(20)).build().unwrap());
    let end = Instant::now() + Duration::from_secs(20);
    while !limiter.is_ready() {
        assert!(Instant::now() < end, "the limiter does not connect");
        std::thread::sleep(Duration::from_millis(2));
    }
    limiter
}

impl Ours {
    /// Checks `policy` with `limiter`.
    pub fn new(limiter: &RateLimiter, policy: Policy) -> Self {
        Self { limiter: limiter.clone(), policy: Arc::new(policy) }
    }
}

impl Decider for Ours {
    async fn decide(&self, caller: Caller) -> bool {
        let outcome = self.limiter.check(&self.policy, caller).await.unwrap();
        assert!(!outcome.is_degraded(), "decided without Redis");
        outcome.is_allowed()
    }
}
