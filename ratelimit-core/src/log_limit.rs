//! At most one log line a second of one kind.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::{Clock, SystemClock};

/// Minimum time between two log lines of one kind, in microseconds.
const INTERVAL_US: u64 = 1_000_000;

/// Lets one log line a second through.
#[derive(Debug)]
pub(crate) struct LogLimit {
    clock: SystemClock,
    /// When the last line was logged, in microseconds; 0 when none was.
    last: AtomicU64,
}

impl LogLimit {
    pub(crate) fn new() -> Self {
        Self { clock: SystemClock::new(), last: AtomicU64::new(0) }
    }

    /// Whether the line may be logged; then the next may be a second later.
    pub(crate) fn may_log(&self) -> bool {
        let (now, last) = (self.clock.now().as_micros(), self.last.load(Ordering::Relaxed));
        now.saturating_sub(last) > INTERVAL_US
            && self.last.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}
