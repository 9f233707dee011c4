//! Sliding window log: every admitted unit with its time; exact in every window.
//!
//! ```text
//! live         entries with now - time <= window; one that is exactly a window old still counts
//! used         sum of the units of the live entries
//! available    max - used
//! fits         cost <= available
//! reset_after  time of the newest entry + window + 1 - now      (0 when there is none)
//! retry_after  time of the entry with which used + cost - max units have expired, + window + 1 - now
//!              (never if cost > max)
//! ```
//!
//! Units admitted in the same microsecond are one entry, and a cost of a million is one entry, so there are
//! never more entries than units, and never more than `max`. Entries leave at the front and arrive at the
//! back. The window `[now - window, now]` is closed at both ends: an entry at 0 ms still counts at 1000 ms,
//! and not one microsecond later.
//!
//! In Redis a log is a tree. A node has up to 61 entries of 5 bytes each, and further bytes for the units if
//! a cost is above 1. Above every 32 nodes is a node of the next level, with the newest time and the units of
//! each. A decision reads and writes the last node, and searches from the oldest entry for what has expired
//! and for the wait. It usually searches only the first node, which takes the server 4 to 10 µs; otherwise
//! one or two nodes of each level, which takes 20 to 60 µs. A group of more than 16 logs can take longer
//! than 1 ms in one call. When a log expires as a whole, Redis frees it at once, which takes about 5 ms for a
//! million entries, unless `lazyfree-lazy-expire` is set.
//!
//! If the clock goes back, entries from the future count as made at `now`, so that they expire after one
//! window.
//!
//! [`Algorithm`](crate::Algorithm) has the source. Twins: `lua/sliding_window_log.lua`, `lua/log_step.lua`.

use std::collections::VecDeque;

#[cfg(feature = "redis")]
use super::step::Encoded;
use super::step::{Reader, Step, Writer};
#[cfg(feature = "redis")]
use crate::policy::Algorithm;
use crate::policy::{MAX_UNITS, Policy};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    window: u64,
    /// Oldest first; times rise strictly.
    entries: VecDeque<LogEntry>,
    /// Sum of all units.
    used: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LogEntry {
    time: u64,
    units: u64,
}

impl State {
    pub(super) fn new(policy: &Policy) -> Self {
        Self { window: policy.window_us(), entries: VecDeque::new(), used: 0 }
    }

    /// The newest entry alone.
    pub(super) fn newest(&self) -> Self {
        let entries = self.entries.back().copied().into_iter().collect();
        Self { window: self.window, entries, used: 0 }
    }

    /// Writes the entries for [`read`](Self::read).
    pub(super) fn write(&self, writer: &mut Writer) {
        for entry in &self.entries {
            writer.micros(entry.time);
            writer.units(entry.units);
        }
    }

    /// Reads entries up to the end; `None` if they are malformed.
    pub(super) fn read(policy: &Policy, reader: &mut Reader<'_>) -> Option<Self> {
        let mut state = Self::new(policy);
        while !reader.is_at_end() {
            let entry = LogEntry {
                time: reader.micros()?,
                units: reader.bounded_units().filter(|units| *units > 0)?,
            };
            if state.entries.back().is_some_and(|last| last.time >= entry.time) {
                return None;
            }
            state.used += entry.units;
            state.entries.push_back(entry);
        }
        (state.used <= MAX_UNITS).then_some(state)
    }

    fn push(&mut self, time: u64, units: u64) {
        match self.entries.back_mut() {
            Some(newest) if newest.time == time => newest.units += units,
            _ => self.entries.push_back(LogEntry { time, units }),
        }
        self.used += units;
    }
}

impl Step for State {
    fn advance(&mut self, _policy: &Policy, now: u64) -> bool {
        if self.entries.is_empty() {
            // Frees the room of a burst that was refunded.
            self.entries = VecDeque::new();
            return false;
        }
        let mut future = 0;
        while let Some(newest) = self.entries.back()
            && newest.time > now
        {
            future += newest.units;
            self.entries.pop_back();
        }
        if future > 0 {
            self.used -= future;
            self.push(now, future);
        }
        while let Some(oldest) = self.entries.front()
            && now - oldest.time > self.window
        {
            self.used -= oldest.units;
            self.entries.pop_front();
        }
        if self.entries.is_empty() {
            // Frees the room of a burst.
            self.entries = VecDeque::new();
        }
        true
    }

    fn available(&self, policy: &Policy, _now: u64) -> Option<u64> {
        policy.max().checked_sub(self.used)
    }

    fn charge(&mut self, _policy: &Policy, now: u64, cost: u64) {
        if cost > 0 {
            self.push(now, cost);
        }
    }

    fn resets_at(&self) -> u64 {
        self.entries.back().map_or(0, |newest| newest.time + self.window + 1)
    }

    fn retry_after(&self, policy: &Policy, now: u64, cost: u64) -> Option<u64> {
        let allowance = policy.max().checked_sub(cost)?;
        let mut used = self.used;
        let last = self.entries.iter().find(|entry| {
            used -= entry.units;
            used <= allowance
        })?;
        Some(last.time + self.window + 1 - now)
    }

    fn refund(&mut self, _policy: &Policy, _now: u64, at: u64, _until: u64, cost: u64) {
        let Ok(index) = self.entries.binary_search_by_key(&at, |entry| entry.time) else {
            return;
        };
        let given_back = cost.min(self.entries[index].units);
        self.entries[index].units -= given_back;
        self.used -= given_back;
        if self.entries[index].units == 0 {
            self.entries.remove(index);
        }
    }
}

#[cfg(feature = "redis")]
impl Encoded for State {
    const ALGORITHM: Algorithm = Algorithm::SlidingWindowLog;

    fn encoded_len(_sub_windows: u64, bytes: &[u8]) -> Option<usize> {
        let count = Reader::new(bytes.get(13..)?).next(2)?;
        Some(15 + 12 * usize::try_from(count).ok()?)
    }

    fn decode(policy: &Policy, reader: &mut Reader<'_>) -> Option<Self> {
        // The reply has the oldest entries, as far as waits depend on them. The newer entries are one sum at
        // the newest time.
        let (mut newer, newest) = (reader.units()?, reader.micros()?);
        let count = reader.next(2)?;
        let mut entries = Vec::new();
        for _ in 0..count {
            let (time, units) = (reader.micros()?, reader.units()?);
            newer = newer.checked_sub(units)?;
            entries.push((time, units));
        }
        if newer > 0 {
            entries.push((newest, newer));
        }
        if !entries.is_sorted_by_key(|(time, _)| *time) {
            return None;
        }
        let mut state = Self::new(policy);
        for (time, units) in entries {
            state.push(time, units);
        }
        Some(state)
    }
}
