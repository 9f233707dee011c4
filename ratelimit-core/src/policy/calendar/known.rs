//! The calendars of the program, each with its zone and its present window.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, OnceLock};

use jiff::tz::TimeZone;
use parking_lot::Mutex;

use super::edges::day_after;
use super::{Calendar, CalendarUnit, Weekday, find};
use crate::policy::window::WindowSpan;

/// Calendars that are found without a lock: one for each remainder of a fingerprint. So many that each anchor
/// of a year in one zone, which requests may choose, has a place of its own. With the anchors of several
/// zones some calendars have one place: the first that is used keeps it, and each decision about another one
/// of them takes the lock of [`ALL`].
const PLACES: usize = 2048;

static NEAREST: [OnceLock<&'static KnownCalendar>; PLACES] = [const { OnceLock::new() }; PLACES];

/// All calendars, by their fingerprints. They stay: there are at most 405 for each zone.
static ALL: LazyLock<Mutex<HashMap<u64, &'static KnownCalendar>>> = LazyLock::new(Mutex::default);

/// A calendar with its zone.
#[derive(Debug)]
pub(crate) struct KnownCalendar {
    calendar: Calendar,
    zone: TimeZone,
    /// The window that was asked for last: its first second, and in the lower bits its length in seconds; 0
    /// for none. In one number, so that both are of the same window.
    last: AtomicU64,
    /// A window, and the first instant of the one before and the end of the one behind.
    #[cfg(feature = "redis")]
    neighbours: Mutex<Option<(WindowSpan, WindowSpan)>>,
}

/// Bits of a length in seconds.
const LENGTH_BITS: u32 = 26;

const MICROS: u64 = 1_000_000;

impl PartialEq for KnownCalendar {
    fn eq(&self, other: &Self) -> bool {
        self.calendar.id == other.calendar.id
    }
}

impl Eq for KnownCalendar {}

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
                #[cfg(feature = "redis")]
                neighbours: Mutex::default(),
            }))
        });
        // Another calendar may have the place.
        let _ = NEAREST[place(calendar.id)].set(known);
        known
    }

    /// The window of an instant in microseconds.
    #[inline]
    pub(crate) fn window_at(&self, now: u64) -> WindowSpan {
        let last = self.last.load(Ordering::Relaxed);
        let (from, length) = (last >> LENGTH_BITS, last & ((1 << LENGTH_BITS) - 1));
        let window = WindowSpan { from: from * MICROS, before: (from + length) * MICROS };
        if window.contains(now) { window } else { self.compute(now) }
    }

    /// From the first instant of the window before to the end of the window behind.
    #[cfg(feature = "redis")]
    pub(crate) fn around(&self, window: WindowSpan) -> WindowSpan {
        let mut neighbours = self.neighbours.lock();
        if let Some((_, around)) = neighbours.filter(|(known, _)| *known == window) {
            return around;
        }
        let at = |instant| self.calendar.window_in(&self.zone, instant);
        let around =
            WindowSpan { from: at(window.from.saturating_sub(1)).from, before: at(window.before).before };
        *neighbours = Some((window, around));
        around
    }

    #[cold]
    fn compute(&self, now: u64) -> WindowSpan {
        let window = self.calendar.window_in(&self.zone, now);
        let (from, length) = (window.from / MICROS, window.length() / MICROS);
        if length < 1 << LENGTH_BITS && from < 1 << (u64::BITS - LENGTH_BITS) {
            self.last.store(from << LENGTH_BITS | length, Ordering::Relaxed);
        }
        window
    }
}

impl Calendar {
    /// The calendar with its zone.
    #[inline]
    pub(crate) fn known(&self) -> &'static KnownCalendar {
        KnownCalendar::of(self)
    }

    /// The window of an instant in microseconds.
    #[inline]
    pub(crate) fn window_at(&self, now: u64) -> WindowSpan {
        self.known().window_at(now)
    }

    /// The same with the anchor under which the window of an instant begins first: the day after the instant.
    /// Under any other anchor the window begins later.
    pub(crate) fn with_earliest_window(&self, now: u64) -> Self {
        let Some(next) = day_after(&self.known().zone, now) else { return *self };
        let (month, day) = (next.month().unsigned_abs(), next.day().unsigned_abs());
        let weekday = usize::from(next.weekday().to_monday_zero_offset().unsigned_abs());
        let days = match (self.unit, Weekday::ALL.get(weekday)) {
            (CalendarUnit::Week, Some(weekday)) => Self::week(*weekday),
            (CalendarUnit::Month, _) => Self::month(day),
            (CalendarUnit::Year, _) => Self::year(month, day),
            _ => return *self,
        };
        days.in_zone(self.zone)
    }
}

#[allow(clippy::cast_possible_truncation, reason = "a remainder")]
pub(super) const fn place(id: u64) -> usize {
    (id % PLACES as u64) as usize
}
