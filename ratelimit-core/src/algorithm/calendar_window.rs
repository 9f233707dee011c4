//! Calendar window: a fixed window of its present length, from one edge of the calendar to the next.
//!
//! ```text
//! available    max - count
//! reset_after  before - now      (0 when nothing is counted)
//! retry_after  before - now      (never when cost > max)
//! ```
//!
//! A count belongs to the present window if it started less than half a window before that, or later. So it
//! begins again once per edge, also where processes whose zone data differ count together: the first process
//! at its edge begins the window. It ends with the last window in which it was used, also for a request whose
//! window begins earlier by another anchor.
//!
//! If the clock goes back behind the start, the count moves to the present window.
//!
//! A refund has the window of its charge, and moves neither the start nor the end of the count. It reaches
//! only a count that began with that window: whether a count that began at another edge had the charge cannot
//! be told. So an empty count keeps its start until it ends, for requests whose window begins earlier: what
//! was charged in that window before is not of this count.
//!
//! In Redis the end is a part of the state, so that the TTL of its key decides nothing.
//!
//! Twin: `lua/fixed_window.lua`, where `from` is the first instant of the window.

use super::fixed_window::Count;
use super::numbers::{U24, U40, U56};
#[cfg(feature = "redis")]
use super::step::Reader;
use super::step::Step;
#[cfg(feature = "redis")]
use crate::policy::Algorithm;
use crate::policy::{Policy, WindowSpan};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// The window of the decision, or of the charge that is refunded.
    pub(super) window: WindowSpan,
    /// Of the present window, or of an earlier one.
    pub(super) count: Count,
    /// The end of the count: that of the last window in which it was used, by any anchor.
    pub(super) ends: u64,
}

/// First byte of a state as bytes.
pub(super) const TAG: u8 = b'k';

/// Length of a state in Redis, in bytes.
#[cfg(feature = "redis")]
pub(super) const ENCODED_LEN: usize = 20;

const MINUTE: u64 = 60_000_000;

impl State {
    /// The state at `now` that [`packed`](Self::packed) returned. `None` if the policy has no calendar.
    #[inline]
    pub(super) fn unpack(
        policy: &Policy,
        now: u64,
        (forget_at, count, minutes): (U56, U40, U24),
    ) -> Option<Self> {
        let ends = u64::from(forget_at);
        let count = Count { start: ends.saturating_sub(u64::from(minutes) * MINUTE), units: count.into() };
        Some(Self { window: policy.calendar_window(now)?, count, ends })
    }

    /// Reads a state that Redis holds, at `now`. `None` if the bytes are malformed, or if the policy has no
    /// calendar.
    #[cfg(feature = "redis")]
    pub(super) fn read(policy: &Policy, now: u64, bytes: &[u8]) -> Option<Self> {
        let (&tag, bytes) = bytes.split_first()?;
        let (mut reader, window) = (Reader::new(bytes), policy.calendar_window(now)?);
        let count = Count { start: reader.micros()?, units: reader.units()? };
        let ends = if tag == TAG {
            reader.micros()?
        } else if tag == Algorithm::FixedWindow.spec().tag {
            // Of a version that did not store the end: it is not over while its key lives.
            window.before
        } else {
            return None;
        };
        reader.is_at_end().then_some(Self { window, count, ends })
    }

    /// The end, the count, and the minutes from the start to the end, rounded down.
    #[inline]
    pub(super) fn packed(&self) -> (U56, U40, U24) {
        let minutes = self.ends.saturating_sub(self.count.start) / MINUTE;
        (self.ends.into(), self.count.units.into(), minutes.into())
    }
}

impl Step for State {
    fn advance(&mut self, _policy: &Policy, now: u64) -> bool {
        let Self { window, count: Count { start, units }, ends } = *self;
        let went_back = now < start;
        if went_back {
            self.count.start = window.from;
            self.ends = window.before;
        } else if ends <= now || units > 0 && start + window.length() / 2 < window.from {
            self.count = Count { start: window.from, units: 0 };
            self.ends = window.before;
        } else {
            if units == 0 {
                self.count.start = start.max(window.from);
            }
            // A count that began by other zone data or another anchor is kept until the end of this window,
            // also by a denial.
            self.ends = ends.max(window.before);
        }
        units > 0 && (went_back || self.ends > ends)
    }

    fn available(&self, policy: &Policy, _now: u64) -> Option<u64> {
        self.count.available(policy)
    }

    fn charge(&mut self, _policy: &Policy, _now: u64, cost: u64) {
        self.count.units += cost;
    }

    fn resets_at(&self) -> u64 {
        self.count.resets_at(self.window.before)
    }

    fn retry_after(&self, policy: &Policy, now: u64, cost: u64) -> Option<u64> {
        (cost <= policy.max()).then(|| self.window.before.saturating_sub(now))
    }

    fn refund(&mut self, _policy: &Policy, _now: u64, _at: u64, _until: u64, cost: u64) {
        if self.count.start == self.window.from {
            self.count.refund(cost);
        }
    }
}
