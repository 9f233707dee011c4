//! Rate limit for log lines of one kind: one per second.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::{Clock, SystemClock};

/// Minimum time between two log lines of one kind, in microseconds.
const INTERVAL_US: u64 = 1_000_000;

/// Admits one log line per second.
#[derive(Debug)]
pub(crate) struct LogLimit {
    clock: SystemClock,
    /// Instant of the last line, in microseconds; 0 if there was none.
    last: AtomicU64,
}

impl LogLimit {
    pub(crate) fn new() -> Self {
        Self { clock: SystemClock::new(), last: AtomicU64::new(0) }
    }

    /// Whether a line may be logged now; if so, the next may be logged a second later.
    pub(crate) fn may_log(&self) -> bool {
        let (now, last) = (self.clock.now().as_micros(), self.last.load(Ordering::Relaxed));
        now.saturating_sub(last) > INTERVAL_US
            && self.last.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}
