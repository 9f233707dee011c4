//! The tables of calendars. `tests/core` compares them with the core, so this file uses nothing of this
//! crate.

/// The unit of a calendar window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CalendarUnit {
    Day,
    Week,
    Month,
    Year,
}

/// The units with their names, the length of the longest window in hours, and other spellings.
pub(crate) static CALENDAR_UNITS: [(CalendarUnit, &str, u64, &[&str]); 4] = [
    (CalendarUnit::Day, "day", 24 + MOST_HOURS_MORE, &["daily", "calendarday", "perday"]),
    (CalendarUnit::Week, "week", 7 * 24 + MOST_HOURS_MORE, &["weekly", "calendarweek", "perweek"]),
    (
        CalendarUnit::Month,
        "month",
        31 * 24 + MOST_HOURS_MORE,
        &["monthly", "months", "1month", "1mo", "mo", "mon", "1mon", "calendarmonth", "permonth"],
    ),
    (
        CalendarUnit::Year,
        "year",
        366 * 24 + MOST_HOURS_MORE,
        &["yearly", "years", "1year", "1y", "1yr", "annual", "annually", "calendaryear", "peryear"],
    ),
];

/// Hours by which a local day can be longer than 24.
const MOST_HOURS_MORE: u64 = 3;

/// Days of a week by their names in the attribute, and the variants of the facade's `Weekday`.
pub(crate) const WEEKDAYS: [(&str, &str); 7] = [
    ("monday", "Monday"),
    ("tuesday", "Tuesday"),
    ("wednesday", "Wednesday"),
    ("thursday", "Thursday"),
    ("friday", "Friday"),
    ("saturday", "Saturday"),
    ("sunday", "Sunday"),
];

impl CalendarUnit {
    fn row(self) -> &'static (Self, &'static str, u64, &'static [&'static str]) {
        CALENDAR_UNITS.iter().find(|(unit, ..)| *unit == self).unwrap_or(&CALENDAR_UNITS[0])
    }

    /// The name in the attribute.
    pub(crate) fn name(self) -> &'static str {
        self.row().1
    }

    /// The length of the longest window, in microseconds.
    pub(crate) fn longest_micros(self) -> u64 {
        self.row().2 * 3_600_000_000
    }
}

/// Whether a year has this day; every fourth one has a 29 February.
pub(crate) const fn has_day(month: u8, day: u8) -> bool {
    let days = match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    day >= 1 && day <= days
}
