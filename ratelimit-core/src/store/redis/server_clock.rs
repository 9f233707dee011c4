//! The server's clock, as far as its last answers tell.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::clock::{Clock, SystemClock, wall_clock};

/// What the server's clock shows by now, if neither clock was set since the last answer. Before the first
/// one, the wall clock of this machine.
///
/// A guess: a call with calendar windows tells the edges around it, and the script takes the window of its
/// own clock. In a cluster the last node that answered stands for all.
#[derive(Debug)]
pub(super) struct ServerClock {
    local: SystemClock,
    /// The server's instant less the local one; they wrap around.
    ahead: AtomicU64,
    /// Whether the next guess about the clock of a test is late.
    is_late: AtomicBool,
}

/// Error of guesses about the clock of a test, in microseconds: an hour. So tests see what a wrong guess does
/// at an edge.
const ERROR_IN_TESTS: u64 = 3_600_000_000;

impl ServerClock {
    pub(super) fn new() -> Self {
        let local = SystemClock::new();
        let ahead = wall_clock().as_micros().wrapping_sub(local.now().as_micros());
        Self { local, ahead: AtomicU64::new(ahead), is_late: AtomicBool::new(false) }
    }

    /// Learns that the server's clock shows `at`, in microseconds.
    pub(super) fn set(&self, at: u64) {
        self.ahead.store(at.wrapping_sub(self.local.now().as_micros()), Ordering::Relaxed);
    }

    /// Learns that the server's clock shows this second, whatever a server says.
    pub(super) fn set_seconds(&self, seconds: i64) {
        self.set(u64::try_from(seconds).unwrap_or_default().saturating_mul(1_000_000));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_guess_is_about_the_second_that_a_server_told() {
        let clock = ServerClock::new();
        // Also no second of any calendar.
        for (told, second) in [(i64::MIN, 0), (-1, 0), (1_790_000_000, 1_790_000_000)] {
            clock.set_seconds(told);
            assert!((second * 1_000_000..(second + 60) * 1_000_000).contains(&clock.guess(None)), "{told}");
        }
        clock.set_seconds(i64::MAX);
        clock.set_seconds(1);
        assert!(clock.guess(None) < 60_000_000, "after the largest one");
    }
}
