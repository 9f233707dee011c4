//! Clocks for the memory store that cost nothing, so that what is around the clock can be seen.

use std::sync::atomic::{AtomicU64, Ordering};

use ratelimit_actix::ratelimit_core::Timestamp;
use ratelimit_actix::ratelimit_core::clock::Clock;

/// Any instant; a multiple of nothing.
pub const START_US: u64 = 1_790_000_000_123_457;

/// A clock that stands still.
#[derive(Clone, Copy, Debug)]
pub struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(START_US)
    }
}

/// A clock that goes on by the same step whenever it is read.
#[derive(Debug)]
pub struct Ticking {
    now: AtomicU64,
    step_us: u64,
}

impl Ticking {
    /// A clock that advances by a number of microseconds.
    pub const fn new(step_us: u64) -> Self {
        Self { now: AtomicU64::new(START_US), step_us }
    }
}

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        // Read by one thread at a time, so a load and a store are enough, and cheaper than an addition that
        // is atomic.
        let now = self.now.load(Ordering::Relaxed) + self.step_us;
        self.now.store(now, Ordering::Relaxed);
        Timestamp::from_micros(now)
    }
}
