//! How long calls take lately, and how they are spread over that time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Minimum time between two calls while one is in flight. A server nearby has answered by then; where the way is longer,
/// several calls are in flight.
pub(super) const PACE: Duration = Duration::from_millis(1);

/// Calls over which one round trip is spread while few requests are queued.
const PER_ROUND_TRIP: u32 = 16;

/// How long the last call that was answered took, in microseconds.
#[derive(Default)]
pub(super) struct Lately(AtomicU64);

impl Lately {
    /// So long an answer will take, if nothing changes; never so long that nobody could wait for it.
    pub(super) fn takes(&self, deadline: Duration) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed)).min(deadline / 2)
    }

    /// Spreads the calls of one round trip evenly over it.
    pub(super) fn pace(&self) -> Duration {
        PACE.max(Duration::from_micros(self.0.load(Ordering::Relaxed)) / PER_ROUND_TRIP)
    }

    pub(super) fn took(&self, time: Duration) {
        self.0.store(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}
