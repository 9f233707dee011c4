//! Estimate of the round-trip time, and the interval between calls that follows from it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::micros;

/// Minimum time between two calls while one is in flight. A server nearby has replied by then; with a longer round trip,
/// several calls are in flight.
pub(super) const MIN_SEND_INTERVAL: Duration = Duration::from_millis(1);

/// Calls over which one round trip is spread while few requests are queued.
const CALLS_PER_ROUND_TRIP: u32 = 16;

/// Round-trip time of the last call that got a reply, in microseconds.
#[derive(Default)]
pub(super) struct RoundTripEstimate(AtomicU64);

impl RoundTripEstimate {
    /// Expected round-trip time: that of the last call, at most half the deadline.
    pub(super) fn expected(&self, deadline: Duration) -> Duration {
        self.last().min(deadline / 2)
    }

    /// Time between two calls: spreads the calls of one round trip evenly over it.
    pub(super) fn send_interval(&self) -> Duration {
        MIN_SEND_INTERVAL.max(self.last() / CALLS_PER_ROUND_TRIP)
    }

    pub(super) fn record(&self, time: Duration) {
        self.0.store(micros(time), Ordering::Relaxed);
    }

    fn last(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}
