//! The server's clock, as far as its last answers tell.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::clock::{Clock, SuspendClock, SystemClock};

/// What the server's clock shows by now, if neither clock was set since the last answer. Before the first one, the wall clock of this
/// machine.
///
/// A guess: a call with calendar windows tells the edges around it, and the script takes the window of its own clock. In a cluster the last node
/// that answered stands for all.
#[derive(Debug)]
pub(super) struct ServerClock {
    local: SuspendClock,
    /// The server's instant less the local one; they wrap around.
    ahead: AtomicU64,
    /// Whether the next guess about the clock of a test is late.
    is_late: AtomicBool,
}

/// Error of guesses about the clock of a test, in microseconds: an hour. So tests see what a wrong guess does at an edge.
const ERROR_IN_TESTS: u64 = 3_600_000_000;

impl ServerClock {
    pub(super) fn new() -> Self {
        let local = SuspendClock::new();
        let ahead = SystemClock::new().now().as_micros().wrapping_sub(local.now().as_micros());
        Self { local, ahead: AtomicU64::new(ahead), is_late: AtomicBool::new(false) }
    }

    /// Learns that the server's clock shows `at`, in microseconds.
    pub(super) fn set(&self, at: u64) {
        self.ahead.store(at.wrapping_sub(self.local.now().as_micros()), Ordering::Relaxed);
    }

    /// Guesses what the server's clock shows; `fake` is the clock of a test.
    pub(super) fn guess(&self, fake: Option<u64>) -> u64 {
        match fake {
            Some(now) if self.is_late.fetch_not(Ordering::Relaxed) => now + ERROR_IN_TESTS,
            Some(now) => now.saturating_sub(ERROR_IN_TESTS),
            None => self.local.now().as_micros().wrapping_add(self.ahead.load(Ordering::Relaxed)),
        }
    }
}
