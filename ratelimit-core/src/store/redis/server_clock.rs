//! The server's clock, as far as its last answer to a call with calendar windows tells.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::{Clock, SuspendClock, SystemClock};

/// What the server's clock shows by now, if neither clock was set since the last answer. Before the first one, the wall clock of this
/// machine.
///
/// A guess: the server decides nothing about windows of another time. In a cluster the last node that answered stands for all.
#[derive(Debug)]
pub(super) struct ServerClock {
    local: SuspendClock,
    /// The server's instant less the local one; they wrap around.
    ahead: AtomicU64,
}

impl ServerClock {
    pub(super) fn new() -> Self {
        let local = SuspendClock::new();
        let ahead = SystemClock::new().now().as_micros().wrapping_sub(local.now().as_micros());
        Self { local, ahead: AtomicU64::new(ahead) }
    }

    /// Learns that the server's clock shows `at`, in microseconds.
    pub(super) fn set(&self, at: u64) {
        self.ahead.store(at.wrapping_sub(self.local.now().as_micros()), Ordering::Relaxed);
    }

    pub(super) fn now(&self) -> u64 {
        self.local.now().as_micros().wrapping_add(self.ahead.load(Ordering::Relaxed))
    }
}
