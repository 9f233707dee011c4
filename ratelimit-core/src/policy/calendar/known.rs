//! The calendars of the program, each with its zone and its present window.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, OnceLock};

use jiff::tz::TimeZone;
use parking_lot::Mutex;

use super::{Calendar, find};
use crate::policy::window::WindowSpan;

/// Places of calendars that are found without a lock, by the remainder of their fingerprint. They are enough
/// for all anchors of a year in one zone, which requests may choose. Under anchors of several zones some
/// calendars share a place: the first that is used keeps it, and decisions about the others take the lock of
/// [`ALL`].
const PLACES: usize = 2048;

static NEAREST: [OnceLock<&'static KnownCalendar>; PLACES] = [const { OnceLock::new() }; PLACES];

/// All calendars, by their fingerprints. They stay: there are at most 405 for each zone.
static ALL: LazyLock<Mutex<HashMap<u64, &'static KnownCalendar>>> = LazyLock::new(Mutex::default);

/// A calendar with its zone.
#[derive(Debug)]
pub(crate) struct KnownCalendar {
    calendar: Calendar,
    zone: TimeZone,
    /// The window that was computed last: its first second, and in the lower bits its length in seconds; 0
    /// for none. In one number, so that both are of the same window.
    last: AtomicU64,
    /// The same first second, and in the lower bits the label.
    label: AtomicU64,
}

/// Bits of a length in seconds, and of a label.
const LOWER_BITS: u32 = 26;

const MICROS: u64 = 1_000_000;

impl KnownCalendar {
    #[inline]
    pub(super) fn of(calendar: &Calendar) -> &'static Self {
        let place = &NEAREST[place(calendar.id)];
        match place.get() {
            Some(known) if known.calendar.id == calendar.id => known,
            _ => Self::look_up(calendar),
        }
    }

    #[cold]
    #[allow(
        clippy::panic,
        reason = "an unknown zone is a mistake in the program, as a number out of its bounds"
    )]
    fn look_up(calendar: &Calendar) -> &'static Self {
        let known = *ALL.lock().entry(calendar.id).or_insert_with(|| {
            let zone = find(calendar.zone).unwrap_or_else(|error| panic!("{error}"));
            Box::leak(Box::new(Self {
                calendar: *calendar,
                zone,
                last: AtomicU64::new(0),
                label: AtomicU64::new(0),
            }))
        });
        // Another calendar may have the place.
        let _ = NEAREST[place(calendar.id)].set(known);
        known
    }

    #[inline]
    fn window_at(&self, now: u64) -> WindowSpan {
        let [last, label] = [&self.last, &self.label].map(|number| number.load(Ordering::Relaxed));
        let [length, lower] = [last, label].map(|number| number & ((1 << LOWER_BITS) - 1));
        let (from, is_torn) = (last >> LOWER_BITS, (last ^ label) >> LOWER_BITS != 0);
        let (from, before) = (from * MICROS, (from + length) * MICROS);
        if is_torn || now < from || before <= now {
            self.compute(now)
        } else {
            WindowSpan { from, before, label: lower }
        }
    }

    #[cold]
    fn compute(&self, now: u64) -> WindowSpan {
        let window = self.calendar.window_in(&self.zone, now);
        let (from, length) = (window.from / MICROS, window.length() / MICROS);
        if length < 1 << LOWER_BITS && from < 1 << (u64::BITS - LOWER_BITS) {
            self.last.store(from << LOWER_BITS | length, Ordering::Relaxed);
            self.label.store(from << LOWER_BITS | window.label, Ordering::Relaxed);
        }
        window
    }
}

impl Calendar {
    /// The window of an instant in microseconds.
    #[inline]
    pub(crate) fn window_at(&self, now: u64) -> WindowSpan {
        KnownCalendar::of(self).window_at(now)
    }

    /// The windows that may be present at an instant by some anchor: that of the present period, and the one
    /// before.
    pub(crate) fn windows_by_any_anchor(&self, now: u64) -> [WindowSpan; 2] {
        let first = Self::from_first_day(self.unit).in_zone(self.zone);
        let present = first.window_at(now);
        [present, first.window_at(present.from.saturating_sub(1))]
    }
}

#[allow(clippy::cast_possible_truncation, reason = "a remainder")]
pub(super) const fn place(id: u64) -> usize {
    (id % PLACES as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads may store their windows at the same time.
    #[test]
    fn the_label_of_another_window_is_not_taken() {
        let (calendar, zone, zero) = (Calendar::day(), TimeZone::UTC, AtomicU64::new(0));
        let known = KnownCalendar { calendar, zone, last: zero, label: AtomicU64::new(0) };
        let [first, second] = [1_790_000_000_000_000, 1_790_090_000_000_000].map(|at| {
            known.window_at(at);
            (at, calendar.window_at(at), known.label.load(Ordering::Relaxed))
        });
        known.label.store(first.2, Ordering::Relaxed);
        assert_ne!(first.1.label, second.1.label);
        assert_eq!(known.window_at(second.0), second.1);
    }
}
