//! Calendars as the fields `window`, `zone` and `anchor` of configuration.

use serde::{Deserialize, Serialize};

use super::{Calendar, CalendarUnit, Weekday};
use crate::policy::Settings;

/// What a file has of a calendar, each field as far as it is given.
#[derive(Debug, Default)]
pub(crate) struct CalendarFields {
    /// In place of the length of a window.
    pub(crate) unit: Option<CalendarUnit>,
    pub(crate) zone: Option<String>,
    pub(crate) anchor: Option<Anchor>,
}

impl CalendarFields {
    /// Adds the calendar to what the file has besides.
    pub(crate) fn add_to(self, settings: &mut Settings) -> Result<(), String> {
        let Some(unit) = self.unit else {
            return if self.zone.is_none() && self.anchor.is_none() {
                Ok(())
            } else {
                Err("`zone` and `anchor` are only for a `window` that is \"day\", \"week\", \"month\" or \"year\"".to_owned())
            };
        };
        *settings = settings.over(Settings::new().calendar(Calendar::from_fields(
            unit,
            self.zone.as_deref(),
            self.anchor,
        )?));
        Ok(())
    }
}

/// The day on which windows begin, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a day for `anchor`, such as 15, \"sunday\" or \"04-01\"")]
pub(crate) enum Anchor {
    Day(u8),
    Text(String),
}

impl Calendar {
    /// The calendar of the fields, or what is wrong.
    fn from_fields(unit: CalendarUnit, zone: Option<&str>, anchor: Option<Anchor>) -> Result<Self, String> {
        let expected = |example: &str| format!("the `anchor` of a {unit} must be {example}");
        let calendar = match (unit, anchor) {
            (CalendarUnit::Day, None) => Self::day(),
            (CalendarUnit::Week, None) => Self::week(Weekday::Monday),
            (CalendarUnit::Month, None) => Self::month(1),
            (CalendarUnit::Year, None) => Self::year(1, 1),
            (CalendarUnit::Week, Some(Anchor::Text(day))) => {
                Self::week(day.parse::<Weekday>().map_err(|error| error.to_string())?)
            }
            (CalendarUnit::Month, Some(Anchor::Day(day))) => Self::month(day),
            (CalendarUnit::Year, Some(Anchor::Text(date))) => {
                let parts = date.split_once('-').filter(|_| date.len() == 5);
                let date =
                    parts.and_then(|(month, day)| Some(Self::year(month.parse().ok()?, day.parse().ok()?)));
                date.ok_or_else(|| expected("a month and a day such as \"04-01\""))?
            }
            (CalendarUnit::Day, Some(_)) => return Err(expected("absent: it begins with its first instant")),
            (CalendarUnit::Week, _) => return Err(expected("a day such as \"sunday\"")),
            (CalendarUnit::Month, _) => return Err(expected("a day from 1 to 31")),
            (CalendarUnit::Year, _) => return Err(expected("a month and a day such as \"04-01\"")),
        };
        zone.map_or(Ok(calendar), |zone| calendar.try_in_zone(zone).map_err(|error| error.to_string()))
    }

    /// The field `anchor`.
    pub(crate) fn anchor_field(&self) -> Option<Anchor> {
        let Self { first, second, .. } = self;
        match self.unit {
            CalendarUnit::Day => None,
            CalendarUnit::Week => {
                Weekday::ALL.get(usize::from(*first)).map(|day| Anchor::Text(day.as_str().to_owned()))
            }
            CalendarUnit::Month => Some(Anchor::Day(*first)),
            CalendarUnit::Year => Some(Anchor::Text(format!("{first:02}-{second:02}"))),
        }
    }
}
