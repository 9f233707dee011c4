//! Calendar windows: days, weeks, months and years of a time zone.
//!
//! An edge is the first instant of a local day. The window of an instant lies between the last edge at or
//! before it and the next. `edges` computes them; `known` keeps the present windows of all calendars of the
//! program. This file has calendars, and time zones by their names.
//!
//! Each window has a count of its own, under the *label* of the window: the number of the day, week, month or
//! year in which its first day lies. So a count never begins again, and a moved anchor finds the count of its
//! label.

mod edges;
#[cfg(feature = "serde")]
mod fields;
mod known;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use jiff::tz::{TimeZone, TimeZoneDatabase, db};
use parking_lot::Mutex;

#[cfg(feature = "serde")]
pub(crate) use self::fields::CalendarFields;
use super::named_values::named_values;
use super::state_kind::{FNV_OFFSET, fnv1a};
use super::suggest;

/// Hours by which a local day can be longer than 24: the most that a zone put its clocks back at once.
const MOST_HOURS_MORE: u64 = 3;

/// Days, weeks, months or years of a time zone, as windows of a fixed window.
///
/// A window begins with the first instant of a local day, also where that day has no midnight or two. A month
/// without the day on which it begins has its last day instead, and the next month has that day again: 31
/// January, 28 February, 31 March. The 29th of February is the 28th in other years.
///
/// # Examples
///
/// Ten thousand a month, from the 15th:
///
/// ```
/// use ratelimit_core::Policy;
/// use ratelimit_core::policy::Calendar;
///
/// static BUDGET: Policy =
///     Policy::builder("budget").max(10_000).calendar(Calendar::month(15).in_zone("Europe/Berlin")).build();
///
/// assert_eq!(BUDGET.calendar().unwrap().to_string(), "calendar month in Europe/Berlin from the 15th");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Calendar {
    unit: CalendarUnit,
    /// A weekday counted from Monday, a day of a month, or a month.
    first: u8,
    /// The day of a year's first month.
    second: u8,
    zone: &'static str,
    /// Whether the anchor differs from request to request.
    moves: bool,
    /// Fingerprint of unit, anchor and zone.
    id: u64,
}

/// The kind of a calendar window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CalendarUnit {
    /// A local day.
    Day,
    /// Seven local days.
    Week,
    /// A month.
    Month,
    /// A year.
    Year,
}

named_values!(CalendarUnit, "window": Day = "day", Week = "week", Month = "month", Year = "year");

/// The day on which a week begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is its name")]
pub enum Weekday {
    #[default]
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

named_values!(
    Weekday, "anchor":
    Monday = "monday", Tuesday = "tuesday", Wednesday = "wednesday", Thursday = "thursday", Friday = "friday",
    Saturday = "saturday", Sunday = "sunday",
);

/// Names of the months, for `Display`.
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

impl Calendar {
    /// Days, in UTC.
    pub const fn day() -> Self {
        Self::new(CalendarUnit::Day, 0, 0)
    }

    /// Weeks that begin on this day, in UTC.
    pub const fn week(first: Weekday) -> Self {
        Self::new(CalendarUnit::Week, first as u8, 0)
    }

    /// Months that begin on this day, from 1 to 31, in UTC.
    pub const fn month(first: u8) -> Self {
        Self::new(CalendarUnit::Month, first, 0)
    }

    /// Years that begin on this day of this month, each counted from 1, in UTC.
    pub const fn year(month: u8, day: u8) -> Self {
        Self::new(CalendarUnit::Year, month, day)
    }

    /// Windows that begin on the first day of each, in UTC.
    const fn from_first_day(unit: CalendarUnit) -> Self {
        match unit {
            CalendarUnit::Day => Self::day(),
            CalendarUnit::Week => Self::week(Weekday::Monday),
            CalendarUnit::Month => Self::month(1),
            CalendarUnit::Year => Self::year(1, 1),
        }
    }

    const fn new(unit: CalendarUnit, first: u8, second: u8) -> Self {
        Self { unit, first, second, zone: "", moves: false, id: 0 }.in_zone("UTC")
    }

    /// The same in the time zone of this IANA name, such as `"Europe/Berlin"`.
    ///
    /// The name is looked up when a limiter is built, if an attribute declares the limit, and otherwise by
    /// the first decision. For a name that is known only at run time, use [`try_in_zone`](Self::try_in_zone).
    ///
    /// # Panics
    ///
    /// The look-up panics if the zone is unknown. It never takes another zone instead.
    #[must_use]
    pub const fn in_zone(mut self, zone: &'static str) -> Self {
        self.zone = zone;
        let id = fnv1a(FNV_OFFSET, &[self.unit as u8, self.first, self.second]);
        self.id = fnv1a(id, zone.as_bytes());
        self
    }

    /// The same in the time zone of this IANA name, which may come from a file.
    ///
    /// # Errors
    ///
    /// [`UnknownZoneError`] if there is no such zone.
    pub fn try_in_zone(self, zone: &str) -> Result<Self, UnknownZoneError> {
        interned(zone).map(|zone| self.in_zone(zone))
    }

    /// Looks the time zone up.
    ///
    /// # Errors
    ///
    /// [`UnknownZoneError`] if there is no such zone.
    pub fn check(&self) -> Result<(), UnknownZoneError> {
        find(self.zone).map(drop)
    }

    /// The kind of the windows.
    pub const fn unit(&self) -> CalendarUnit {
        self.unit
    }

    /// The name of the time zone.
    pub const fn zone(&self) -> &'static str {
        self.zone
    }

    /// The same from the nearest day on which its windows can begin: the 1st for a day 0, the 31st for a day
    /// 32, and 29 February for the 30th.
    ///
    /// For days that come from elsewhere, such as the billing days of accounts: a wrong one moves the edge of
    /// the windows, and does not lock an account out. A policy is not built with such a day.
    ///
    /// An account whose day changes has one quota for each month, week or year in which a window begins: the
    /// window by the new day begins in this one or in the last, and finds what was counted for it. So counts
    /// are kept for one window more than those of a calendar whose day never changes.
    ///
    /// # Examples
    ///
    /// A budget from the billing day of an account:
    ///
    /// ```
    /// use ratelimit_core::policy::Calendar;
    /// use ratelimit_core::{Policy, PolicyBuilder};
    ///
    /// const BUDGET: PolicyBuilder = Policy::builder("budget").max(10_000);
    ///
    /// fn budget_of(billing_day: u8) -> Policy {
    ///     BUDGET.calendar(Calendar::month(billing_day).in_zone("Europe/Berlin").clamped()).build()
    /// }
    ///
    /// assert_eq!(budget_of(0), budget_of(1));
    /// assert_eq!(budget_of(32).calendar().unwrap().to_string(), "calendar month in Europe/Berlin from the 31st");
    /// ```
    #[must_use]
    pub const fn clamped(mut self) -> Self {
        self.moves = true;
        match self.unit {
            CalendarUnit::Day | CalendarUnit::Week => {}
            CalendarUnit::Month => self.first = nearest(self.first, 31),
            CalendarUnit::Year => {
                self.first = nearest(self.first, 12);
                self.second = nearest(self.second, days_of(self.first));
            }
        }
        self.in_zone(self.zone)
    }

    /// Whether the days on which windows begin exist: no year has a 30 February.
    pub(crate) const fn has_anchor(&self) -> bool {
        let Self { unit, first, second, .. } = *self;
        match unit {
            CalendarUnit::Day | CalendarUnit::Week => true,
            CalendarUnit::Month => first >= 1 && first <= 31,
            CalendarUnit::Year => second >= 1 && second <= days_of(first),
        }
    }

    /// The letter of the windows in keys.
    pub(crate) const fn letter(&self) -> u8 {
        match self.unit {
            CalendarUnit::Day => b'd',
            CalendarUnit::Week => b'w',
            CalendarUnit::Month => b'M',
            CalendarUnit::Year => b'y',
        }
    }

    /// Length of the longest window of this kind, in microseconds.
    pub(crate) const fn longest_us(&self) -> u64 {
        let days = match self.unit {
            CalendarUnit::Day => 1,
            CalendarUnit::Week => 7,
            CalendarUnit::Month => 31,
            CalendarUnit::Year => 366,
        };
        (24 * days + MOST_HOURS_MORE) * 3_600_000_000
    }

    /// Whether the anchor differs from request to request.
    pub(crate) const fn moves(&self) -> bool {
        self.moves
    }
}

/// The days of a month counted from 1, in a year that has a 29 February; 0 for no month.
const fn days_of(month: u8) -> u8 {
    match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    }
}

/// The nearest number from 1 to `most`.
const fn nearest(number: u8, most: u8) -> u8 {
    match number {
        0 => 1,
        number if number > most => most,
        number => number,
    }
}

/// Such as `calendar month in Europe/Berlin from the 15th`.
impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unit, first, second, zone, .. } = self;
        write!(f, "calendar {unit} in {zone}")?;
        match unit {
            CalendarUnit::Day => Ok(()),
            CalendarUnit::Week => match Weekday::ALL.get(usize::from(*first)) {
                Some(day) => write!(f, " from {}{}", day.as_str()[..1].to_uppercase(), &day.as_str()[1..]),
                None => Ok(()),
            },
            CalendarUnit::Month => write!(f, " from the {first}{}", ordinal(*first)),
            CalendarUnit::Year => {
                let month = MONTHS.get(usize::from(*first).wrapping_sub(1)).copied().unwrap_or_default();
                write!(f, " from {second} {month}")
            }
        }
    }
}

/// The letters behind a number: 1st, 2nd, 3rd, 11th.
const fn ordinal(number: u8) -> &'static str {
    match (number / 10, number % 10) {
        (1, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    }
}

/// There is no time zone of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown time zone {found:?}{}; expected an IANA name such as \"Europe/Berlin\"", hint(.meant.as_deref()))]
pub struct UnknownZoneError {
    found: String,
    meant: Option<String>,
}

impl UnknownZoneError {
    /// Name that was probably meant.
    pub fn suggestion(&self) -> Option<&str> {
        self.meant.as_deref()
    }
}

fn hint(meant: Option<&str>) -> String {
    meant.map_or_else(String::new, |meant| format!(", did you mean {meant:?}?"))
}

/// The zone of a name.
fn find(name: &str) -> Result<TimeZone, UnknownZoneError> {
    // Some systems leave out older names, such as `US/Eastern`.
    find_in([db(), &TimeZoneDatabase::bundled()], name)
}

fn find_in(databases: [&TimeZoneDatabase; 2], name: &str) -> Result<TimeZone, UnknownZoneError> {
    // Names are found in any case of letters, but one spelling is enough. `Etc/Unknown` would be UTC in
    // silence.
    let is_exact = |zone: &TimeZone| !zone.is_unknown() && zone.iana_name() == Some(name);
    let mut zones = databases.iter().filter_map(|database| database.get(name).ok());
    zones
        .find(is_exact)
        .ok_or_else(|| UnknownZoneError { found: name.to_owned(), meant: meant(databases, name) })
}

fn meant(databases: [&TimeZoneDatabase; 2], name: &str) -> Option<String> {
    let names = databases.iter().flat_map(|database| database.available());
    let names: Vec<String> = names.map(|name| name.as_str().to_owned()).collect();
    let lower: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    // The name of a city without its continent is a likely mistake.
    let ending = format!("/{}", name.to_lowercase().replace(' ', "_"));
    let same = lower.iter().position(|other| *other == name.to_lowercase());
    let city = || lower.iter().position(|other| other.ends_with(&ending));
    let index = same.or_else(city).or_else(|| {
        let meant = suggest::nearest(name, lower.iter().map(String::as_str))?;
        lower.iter().position(|name| name == meant)
    })?;
    Some(names[index].clone())
}

/// The name of a known zone, for the life of the program. There are some hundred.
fn interned(name: &str) -> Result<&'static str, UnknownZoneError> {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    find(name)?;
    let mut names = NAMES.lock();
    if let Some(interned) = names.get(name) {
        return Ok(interned);
    }
    let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(name);
    Ok(name)
}

/// A crate that declares limits, whose zones are looked up when a limiter is built.
#[derive(Debug)]
pub struct DeclaredZones {
    /// The first mistake, with its place in the source.
    pub check: fn() -> Result<(), String>,
}

inventory::collect!(DeclaredZones);

impl DeclaredZones {
    /// Looks up the zones of all declared limits.
    ///
    /// # Panics
    ///
    /// If there is no such zone.
    pub(crate) fn check_all() {
        for crate_ in inventory::iter::<Self> {
            if let Err(error) = (crate_.check)() {
                panic!("{error}");
            }
        }
    }
}
