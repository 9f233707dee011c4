//! Fixed window: one count that starts anew at every multiple of the window since the epoch.
//!
//! ```text
//! available    max - count
//! fits         cost <= available
//! reset_after  start + window - now      (0 when nothing is counted)
//! retry_after  start + window - now      (never when cost > max)
//! ```
//!
//! Up to 2 × `max` pass around the edge of a window. [`Algorithm`](crate::Algorithm) has the source and the complexity.
//!
//! If the clock goes back behind the stored window, the count moves to a window that starts at `now`: it is kept, and no
//! wait is longer than one window. The next window starts at a multiple again, so for each step back up to `max` more
//! units can pass than without it.
//!
//! Twin: `lua/fixed_window.lua`.

#[cfg(feature = "redis")]
use super::reader::{Encoded, Reader};
use super::step::Step;
#[cfg(feature = "redis")]
use super::use_by::UseBy;
#[cfg(feature = "redis")]
use crate::policy::Algorithm;
use crate::policy::Policy;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) window: u64,
    /// First instant of the counted window.
    pub(super) start: u64,
    /// Units admitted since `start`.
    pub(super) count: u64,
}

impl Step for State {
    fn advance(&mut self, _policy: &Policy, now: u64) -> bool {
        let went_back = self.count > 0 && now < self.start;
        if went_back {
            self.start = now;
        } else if self.count == 0 || now - self.start >= self.window {
            self.start = now - now % self.window;
            self.count = 0;
        }
        went_back
    }

    fn available(&self, policy: &Policy, _now: u64) -> Option<u64> {
        policy.max().checked_sub(self.count)
    }

    fn charge(&mut self, _policy: &Policy, _now: u64, cost: u64) {
        self.count += cost;
    }

    fn resets_at(&self) -> u64 {
        if self.count == 0 { 0 } else { self.start + self.window }
    }

    #[cfg(feature = "redis")]
    fn use_by(&self) -> Option<UseBy> {
        Some(UseBy::Before(self.start + self.window))
    }

    fn retry_after(&self, policy: &Policy, now: u64, cost: u64) -> Option<u64> {
        (cost <= policy.max()).then(|| self.start + self.window - now)
    }

    fn refund(&mut self, _policy: &Policy, _now: u64, at: u64, _until: u64, cost: u64) {
        if self.start <= at && at - self.start < self.window {
            self.count = self.count.saturating_sub(cost);
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
        Some(Self { window: policy.window_us(), start: reader.micros()?, count: reader.units()? })
    }
}
