//! The server's clock, estimated from its replies.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use crate::clock::wall_clock;
use crate::store::deadline::now;

/// What a reply shows of two clocks: the server decided at `at`, by its clock. The call was written at or
/// after `sent_at`, and its reply was read at or before `answered_at`, both by one clock of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockSample {
    pub(super) at: u64,
    pub(super) sent_at: u64,
    pub(super) answered_at: u64,
}

impl ClockSample {
    /// By how much the server's clock is ahead of the local clock, at least and at most. The server decided
    /// between the write of the call and the read of its reply, which may have waited to be read.
    pub(super) const fn ahead(&self) -> (i64, i64) {
        (ahead(self.at, self.answered_at), ahead(self.at, self.sent_at))
    }

    /// By how much the server's clock and the wall clock of this machine differ at least, in microseconds.
    pub(super) fn apart(&self) -> u64 {
        let here = wall_clock_ahead();
        here.abs_diff(self.nearest(here))
    }

    fn nearest(&self, estimate: i64) -> i64 {
        let (least, most) = self.ahead();
        estimate.max(least).min(most)
    }
}

const fn ahead(there: u64, here: u64) -> i64 {
    there.wrapping_sub(here).cast_signed()
}

fn wall_clock_ahead() -> i64 {
    ahead(wall_clock().as_micros(), now())
}

/// The server's clock, for choosing the windows of a call. It is wrong by a round trip at most, unless one of
/// the clocks was set since the last reply.
///
/// In a cluster the node that replied last stands for all. Before the first reply it is the wall clock of
/// this machine.
#[derive(Debug)]
pub(super) struct ServerClock {
    /// The server's instant less the local instant.
    ahead: AtomicI64,
    is_known: AtomicBool,
}

impl ServerClock {
    pub(super) fn new() -> Self {
        Self { ahead: AtomicI64::new(wall_clock_ahead()), is_known: AtomicBool::new(false) }
    }

    /// Learns from a reply. The estimate stays as far as the reply allows, so that a reply that was read late
    /// changes nothing.
    pub(super) fn note(&self, sample: ClockSample) {
        let nearest = |estimate| Some(sample.nearest(estimate));
        // It returns an error only where the function returns `None`.
        let _ = self.ahead.fetch_update(Ordering::Relaxed, Ordering::Relaxed, nearest);
        self.is_known.store(true, Ordering::Release);
    }

    /// Whether a server has replied.
    pub(super) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Acquire)
    }

    /// What the server's clock shows by now, in microseconds.
    pub(super) fn now(&self) -> u64 {
        now().wrapping_add_signed(self.ahead.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u64, sent_at: u64, answered_at: u64) -> ClockSample {
        ClockSample { at, sent_at, answered_at }
    }

    #[test]
    fn a_reply_changes_the_estimate_only_as_far_as_it_must() {
        let clock = ServerClock { ahead: AtomicI64::new(0), ..ServerClock::new() };
        for (sample, ahead, why) in [
            (sample(5_000, 100, 300), 4_700, "the time since the read"),
            (sample(6_000, 1_090, 1_350), 4_700, "in between"),
            (sample(7_000, 2_110, 2_290), 4_710, "the way back took less time"),
            (sample(8_000, 3_295, 3_400), 4_705, "so did the way there"),
            (sample(8_010, 3_300, 2_003_100), 4_705, "read 2 s late"),
            (sample(6_500, 1_500, 3_500), 4_705, "an older reply that is noted last"),
            (sample(60_000, 4_000, 4_100), 55_900, "the server's clock was set forward"),
            (sample(10_000, 5_000, 5_100), 5_000, "and back"),
        ] {
            clock.note(sample);
            assert_eq!(clock.ahead.load(Ordering::Relaxed), ahead, "{why}");
        }
    }
}
