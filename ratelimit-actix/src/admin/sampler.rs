//! Ends the bars of the last minutes in time, in the background of a worker.

use std::time::Duration;

use actix_web::rt;
use ratelimit_core::RateLimiter;
use ratelimit_core::stats::BAR_SECONDS;
use tokio::task::JoinHandle;
use tokio::time::{self, MissedTickBehavior};

/// A task that ends with this value. Each worker has one. The first that notices the end of a bar ends it for all.
pub(super) struct Sampler(JoinHandle<()>);

impl Sampler {
    pub(super) fn start(limiter: &RateLimiter) -> Self {
        let limiter = limiter.clone();
        Self(rt::spawn(async move {
            // Several times per bar, so that one that comes late is in time.
            let mut ticks = time::interval(Duration::from_secs(BAR_SECONDS) / 5);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            loop {
                ticks.tick().await;
                limiter.stats().sample();
            }
        }))
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.0.abort();
    }
}
