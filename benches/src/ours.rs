//! Our limiter over Redis, as something that decides.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ratelimit_actix::ratelimit_core::__private_0_1::PrivateLimiter as _;
use ratelimit_actix::ratelimit_core::policy::Calendar;
use ratelimit_actix::{Algorithm, Check, Policy, PolicyBuilder, RateLimiter, RedisStore, RedisStoreBuilder};

use crate::caller::Caller;
use crate::drive::Decider;
use crate::{MAX, WINDOW};

/// The builder of every policy that is measured.
pub const fn builder() -> PolicyBuilder {
    Policy::builder("user-api").max(MAX).window(WINDOW)
}

/// A policy for every algorithm, and the counter with 10 sub-windows, with the names that the report has for
/// them.
pub fn algorithms() -> Vec<(&'static str, Policy)> {
    let named = |&algorithm: &Algorithm| {
        let policy = builder().algorithm(algorithm).build();
        match algorithm {
            Algorithm::FixedWindow => {
                let calendar = builder().calendar(Calendar::month(1).in_zone("Europe/Berlin")).build();
                vec![("fixed window", policy), ("calendar month", calendar)]
            }
            Algorithm::SlidingWindowCounter => {
                vec![("two windows", policy), ("10 sub-windows", builder().sub_windows(10).build())]
            }
            Algorithm::SlidingWindowLog => vec![("log", policy)],
            Algorithm::TokenBucket => vec![("token bucket", policy)],
            other => vec![(other.as_str(), policy)],
        }
    };
    Algorithm::ALL.iter().flat_map(named).collect()
}

/// A limiter and the policy that it checks.
#[derive(Clone, Debug)]
pub struct Ours {
    limiter: RateLimiter,
    policy: Arc<Policy>,
    is_worker: bool,
}

/// Long, so that a busy machine never makes a limiter count by itself: that would be fast, and no decision of
/// Redis.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// A store with the deadline of the benchmark.
pub fn store(url: &str) -> RedisStoreBuilder {
    RedisStore::builder(url).deadline(DEADLINE)
}

/// A limiter that is connected to the servers at `url`.
pub fn connect(url: &str) -> RateLimiter {
    ready(RateLimiter::new(store(url).build().unwrap()))
}

/// The limiter, once it is connected.
///
/// # Panics
///
/// When it is not connected within 20 seconds.
pub fn ready(limiter: RateLimiter) -> RateLimiter {
    let end = Instant::now() + DEADLINE;
    while !limiter.is_ready() {
        assert!(Instant::now() < end, "the limiter does not connect");
        std::thread::sleep(Duration::from_millis(2));
    }
    limiter
}

impl Ours {
    /// Checks `policy` with `limiter`.
    pub fn new(limiter: &RateLimiter, policy: Policy) -> Self {
        Self { limiter: limiter.clone(), policy: Arc::new(policy), is_worker: false }
    }

    /// The same, asked by the worker of an Actix server: a runtime with one thread.
    #[must_use]
    pub fn on_worker(self) -> Self {
        Self { is_worker: true, ..self }
    }
}

impl Decider for Ours {
    async fn decide(&self, caller: Caller) -> bool {
        if self.is_worker {
            let check = [Check::new(&self.policy, caller.as_ref())];
            let outcome = self.limiter.check_all_on_worker(&check).await.unwrap();
            assert!(!outcome.is_degraded(), "decided without Redis");
            return outcome.is_allowed();
        }
        let outcome = self.limiter.check(&self.policy, caller).await.unwrap();
        assert!(!outcome.is_degraded(), "decided without Redis");
        outcome.is_allowed()
    }
}
