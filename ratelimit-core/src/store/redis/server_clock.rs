//! The server's clock, estimated from its last reply.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::clock::{Clock, SystemClock, wall_clock};

/// The server's clock, for choosing the windows of a call. It is late by the time of the way back of the last
/// reply, and wrong if one of the clocks was set since then.
///
/// In a cluster the node that replied last stands for all. Before the first reply it is the wall clock of
/// this machine.
#[derive(Debug)]
pub(super) struct ServerClock {
    local: SystemClock,
    /// The server's instant less the local instant, with wrap-around.
    ahead: AtomicU64,
    is_known: AtomicBool,
}

impl ServerClock {
    pub(super) fn new() -> Self {
        let local = SystemClock::new();
        let ahead = wall_clock().as_micros().wrapping_sub(local.now().as_micros());
        Self { local, ahead: AtomicU64::new(ahead), is_known: AtomicBool::new(false) }
    }

    /// Learns that the server's clock shows `at`, in microseconds.
    pub(super) fn set(&self, at: u64) {
        self.ahead.store(at.wrapping_sub(self.local.now().as_micros()), Ordering::Relaxed);
        self.is_known.store(true, Ordering::Release);
    }

    /// Whether a server has replied.
    pub(super) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Acquire)
    }

    /// What the server's clock shows by now, in microseconds.
    pub(super) fn now(&self) -> u64 {
        self.local.now().as_micros().wrapping_add(self.ahead.load(Ordering::Relaxed))
    }
}
