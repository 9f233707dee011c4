//! Edges: the first instants of local days.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::{AmbiguousOffset, TimeZone};

use super::{Calendar, CalendarUnit};
use crate::policy::window::WindowSpan;

const MICROS: u64 = 1_000_000;

/// The last instant whose window is computed, in the year 8999; the window of a later one is that of this
/// one.
const LAST_SECOND: i64 = 221_800_000_000;

impl Calendar {
    /// The window in this zone of an instant in microseconds.
    pub(super) fn window_in(&self, zone: &TimeZone, now: u64) -> WindowSpan {
        let at = second_of(now);
        let today = date_of(zone, now).unwrap_or(Date::ZERO);
        // The days around today: where a clock goes back over midnight, the date of an instant may be the day
        // before its window.
        let days = (-1..=2).filter_map(|nth| self.first_day(today, nth));
        let edges = days.filter_map(|day| Some((first_instant(day, zone)?, day)));
        let (mut from, mut before) = ((i64::MIN, Date::ZERO), i64::MAX);
        for edge in edges {
            if edge.0 <= at {
                from = from.max(edge);
            } else {
                before = before.min(edge.0);
            }
        }
        let micros = |edge| u64::try_from(edge).unwrap_or(0).saturating_mul(MICROS);
        WindowSpan { from: micros(from.0), before: micros(before), label: self.label(from.1) }
    }

    /// The label of a window whose first day is this date: the number of the day, the week from Monday, the
    /// month or the year. Number 1 is that of the first of January 1970.
    fn label(&self, first: Date) -> u64 {
        const EPOCH: Date = Date::constant(1970, 1, 1);
        let years = i32::from(first.year() - EPOCH.year());
        let days = || (first - EPOCH).get_days();
        let number = match self.unit {
            CalendarUnit::Day => days(),
            // It was a Thursday.
            CalendarUnit::Week => (days() + 3).div_euclid(7),
            CalendarUnit::Month => 12 * years + i32::from(first.month()) - 1,
            CalendarUnit::Year => years,
        };
        u64::try_from(number + 1).unwrap_or(0)
    }

    /// The first day of the window of a date, or of the `nth` after it.
    fn first_day(&self, date: Date, nth: i8) -> Option<Date> {
        match self.unit {
            CalendarUnit::Day => add_days(date, i32::from(nth)),
            CalendarUnit::Week => {
                let weekday = i32::from(date.weekday().to_monday_zero_offset());
                add_days(date, 7 * i32::from(nth) - (weekday - i32::from(self.first)).rem_euclid(7))
            }
            CalendarUnit::Month => {
                let month = i16::from(date.month()) - 1 + i16::from(nth);
                let first =
                    Date::new(date.year() + month.div_euclid(12), to_i8(month.rem_euclid(12) + 1)?, 1)
                        .ok()?;
                on_day(first, self.first)
            }
            CalendarUnit::Year => {
                let first =
                    Date::new(date.year() + i16::from(nth), i8::try_from(self.first).ok()?, 1).ok()?;
                on_day(first, self.second)
            }
        }
    }
}

/// The day of a month, or its last one.
fn on_day(first: Date, day: u8) -> Option<Date> {
    let day = i8::try_from(day).ok()?.min(first.days_in_month());
    Date::new(first.year(), first.month(), day).ok()
}

fn add_days(date: Date, days: i32) -> Option<Date> {
    date.checked_add(jiff::Span::new().try_days(days).ok()?).ok()
}

fn to_i8(number: i16) -> Option<i8> {
    i8::try_from(number).ok()
}

/// The first instant, in seconds since the epoch, whose local date is `day` or later.
fn first_instant(day: Date, zone: &TimeZone) -> Option<i64> {
    let midnight = day.at(0, 0, 0, 0);
    let instant = match zone.to_ambiguous_timestamp(midnight).offset() {
        AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
            offset.to_timestamp(midnight).ok()?
        }
        // There is no midnight: the day begins when the clock goes forward.
        AmbiguousOffset::Gap { before, .. } => {
            let after = before.to_timestamp(midnight).ok()?;
            let later = Timestamp::from_second(after.as_second() + 1).ok()?;
            zone.preceding(later).next().map_or(after, |transition| transition.timestamp())
        }
    };
    Some(instant.as_second())
}

/// An instant in seconds, as far as windows are computed.
fn second_of(now: u64) -> i64 {
    i64::try_from(now / MICROS).unwrap_or(LAST_SECOND).min(LAST_SECOND)
}

/// The local date of an instant in microseconds.
fn date_of(zone: &TimeZone, now: u64) -> Option<Date> {
    Timestamp::from_second(second_of(now)).ok().map(|at| zone.to_datetime(at).date())
}
