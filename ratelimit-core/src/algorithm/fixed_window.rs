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
//! Each window of a calendar has a state of its own, whose count never begins again. A decision at an instant
//! outside of the window counts as one at the nearest instant in it.
//!
//! If the clock goes back to before the stored window, the count moves to a window that starts at `now`: it
//! is kept, and no wait is longer than one window. The next window starts at a multiple again, so each step
//! back lets up to `max` more units pass.
//!
//! Twin: `lua/fixed_window.lua`.

use super::step::Step;
#[cfg(feature = "redis")]
use super::step::{Encoded, Reader};
#[cfg(feature = "redis")]
use crate::policy::Algorithm;
use crate::policy::{Policy, WindowSpan, nearest};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// First instant of the counted window.
    start: u64,
    /// Units admitted since `start`.
    units: u64,
    /// How long the state is kept after `start`, in microseconds: the length of the window, or longer if the
    /// window has this state to itself.
    kept: u64,
    /// The end of a window that has this state to itself; otherwise 0.
    own_end: u64,
}

impl State {
    /// The state from the numbers that [`packed`](Self::packed) returned. `window` is the one that has
    /// this state to itself.
    #[inline]
    pub(super) fn unpack(policy: &Policy, window: Option<WindowSpan>, forget_at: u64, units: u64) -> Self {
        if let Some(window) = window {
            return Self { start: window.from, units, kept: policy.kept_us(window), own_end: window.before };
        }
        let kept = policy.window_us();
        Self { start: forget_at.saturating_sub(kept), units, kept, own_end: 0 }
    }

    /// The instant from which the state equals a new one, and the units.
    #[inline]
    pub(super) const fn packed(&self) -> (u64, u64) {
        (if self.units == 0 { 0 } else { self.start + self.kept }, self.units)
    }

    const fn has_own_state(&self) -> bool {
        self.own_end > 0
    }

    const fn end(&self) -> u64 {
        if self.has_own_state() { self.own_end } else { self.start + self.kept }
    }
}

impl Step for State {
    fn instant(&self, now: u64) -> u64 {
        if self.has_own_state() { nearest(now, self.start, self.own_end) } else { now }
    }

    fn advance(&mut self, _policy: &Policy, now: u64) -> bool {
        if self.has_own_state() {
            return false;
        }
        let went_back = self.units > 0 && now < self.start;
        if went_back {
            self.start = now;
        } else if self.units == 0 || now - self.start >= self.kept {
            (self.start, self.units) = (now - now % self.kept, 0);
        }
        went_back
    }

    fn available(&self, policy: &Policy, _now: u64) -> Option<u64> {
        policy.max().checked_sub(self.units)
    }

    fn charge(&mut self, _policy: &Policy, _now: u64, cost: u64) {
        self.units += cost;
    }

    fn resets_at(&self) -> u64 {
        if self.units == 0 { 0 } else { self.end() }
    }

    fn retry_after(&self, policy: &Policy, now: u64, cost: u64) -> Option<u64> {
        (cost <= policy.max()).then(|| self.end() - now)
    }

    fn refund(&mut self, _policy: &Policy, _now: u64, at: u64, _until: u64, cost: u64) {
        if self.has_own_state() || self.start <= at && at - self.start < self.kept {
            self.units = self.units.saturating_sub(cost);
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
        let forget_at = reader.micros()? + policy.window_us();
        Some(Self::unpack(policy, None, forget_at, reader.units()?))
    }
}
