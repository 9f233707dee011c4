//! The server's clock, as far as its last answer tells.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::{Clock, SystemClock, wall_clock};

/// What the server's clock shows by now, if neither clock was set since the last answer: late by at most the
/// way of that answer. Before the first one, the wall clock of this machine.
///
/// By it the windows of a call are chosen. In a cluster the last node that answered stands for all.
#[derive(Debug)]
pub(super) struct ServerClock {
    local: SystemClock,
    /// The server's instant less the local one; they wrap around.
    ahead: AtomicU64,
}

impl ServerClock {
    pub(super) fn new() -> Self {
        let local = SystemClock::new();
        let ahead = wall_clock().as_micros().wrapping_sub(local.now().as_micros());
        Self { local, ahead: AtomicU64::new(ahead) }
    }

    /// Learns that the server's clock shows `at`, in microseconds.
    pub(super) fn set(&self, at: u64) {
        self.ahead.store(at.wrapping_sub(self.local.now().as_micros()), Ordering::Relaxed);
    }

    /// What the server's clock shows by now, in microseconds.
    pub(super) fn now(&self) -> u64 {
        self.local.now().as_micros().wrapping_add(self.ahead.load(Ordering::Relaxed))
    }
}
