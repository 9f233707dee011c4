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

/// The units with their names, and other spellings.
pub(crate) static CALENDAR_UNITS: [(CalendarUnit, &str, &[&str]); 4] = [
    (CalendarUnit::Day, "day", &["daily", "calendarday", "perday"]),
    (CalendarUnit::Week, "week", &["weekly", "calendarweek", "perweek"]),
    (
        CalendarUnit::Month,
        "month",
        &["monthly", "months", "1month", "1mo", "mo", "mon", "1mon", "calendarmonth", "permonth"],
    ),
    (
        CalendarUnit::Year,
        "year",
        &["yearly", "years", "1year", "1y", "1yr", "annual", "annually", "calendaryear", "peryear"],
    ),
];

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
    /// The name in the attribute.
    pub(crate) fn name(self) -> &'static str {
        CALENDAR_UNITS.iter().find(|(unit, ..)| *unit == self).unwrap_or(&CALENDAR_UNITS[0]).1
    }
}

/// Whether a year has this day. 29 February is one.
pub(crate) const fn has_day(month: u8, day: u8) -> bool {
    let days = match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    day >= 1 && day <= days
}
