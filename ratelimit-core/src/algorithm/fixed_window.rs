//! Fixed window: one count that starts anew at every multiple of the window since the epoch.
//!
//! ```text
//! available    max - count
//! fits         cost <= available
//! reset_after  start + window - now      (0 when nothing is counted)
//! retry_after  start + window - now      (never when cost > max)
//! ```
//!
//! Up to 2 × `max` pass around the edge of a window. [`Algorithm`](crate::Algorithm) has the source and the
//! complexity.
//!
//! If the clock goes back behind the stored window, the count moves to a window that starts at `now`: it is
//! kept, and no wait is longer than one window. The next window starts at a multiple again, so for each step
//! back up to `max` more units can pass than without it.
//!
//! Twin: `lua/fixed_window.lua`.

use super::step::Step;
#[cfg(feature = "redis")]
use super::step::{Encoded, Reader};
#[cfg(feature = "redis")]
use crate::policy::Algorithm;
use crate::policy::Policy;

/// The count of a window, of a fixed length or of a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Count {
    /// First instant of the counted window.
    pub(super) start: u64,
    /// Units admitted since `start`.
    pub(super) units: u64,
}

impl Count {
    /// Whether units are counted in a window that has not begun.
    pub(super) const fn is_ahead_of(self, now: u64) -> bool {
        self.units > 0 && now < self.start
    }

    pub(super) fn available(self, policy: &Policy) -> Option<u64> {
        policy.max().checked_sub(self.units)
    }

    /// The end of the counted window; 0 when nothing is counted.
    pub(super) const fn resets_at(self, end: u64) -> u64 {
        if self.units == 0 { 0 } else { end }
    }

    pub(super) fn refund(&mut self, cost: u64) {
        self.units = self.units.saturating_sub(cost);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) window: u64,
    pub(super) count: Count,
}

impl Step for State {
    fn advance(&mut self, _policy: &Policy, now: u64) -> bool {
        let Count { start, units } = self.count;
        let went_back = self.count.is_ahead_of(now);
        if went_back {
            self.count.start = now;
        } else if units == 0 || now - start >= self.window {
            self.count = Count { start: now - now % self.window, units: 0 };
        }
        went_back
    }

    fn available(&self, policy: &Policy, _now: u64) -> Option<u64> {
        self.count.available(policy)
    }

    fn charge(&mut self, _policy: &Policy, _now: u64, cost: u64) {
        self.count.units += cost;
    }

    fn resets_at(&self) -> u64 {
        self.count.resets_at(self.count.start + self.window)
    }

    fn retry_after(&self, policy: &Policy, now: u64, cost: u64) -> Option<u64> {
        (cost <= policy.max()).then(|| self.count.start + self.window - now)
    }

    fn refund(&mut self, _policy: &Policy, _now: u64, at: u64, _until: u64, cost: u64) {
        if self.count.start <= at && at - self.count.start < self.window {
            self.count.refund(cost);
        }
    }
}

#[cfg(feature = "redis")]
impl Encoded for State {
    const ALGORITHM: Algorithm = Algorithm::FixedWindow;

    fn encoded_len(_sub_windows: u64, _bytes: &[u8]) -> Option<usize> {
        Some(13)
    }

    fn decode(policy: &Policy, reader: &mut Reader<'_>) -> Option<Self> {
        let count = Count { start: reader.micros()?, units: reader.units()? };
        Some(Self { window: policy.window_us(), count })
    }
}
