//! Calendars as the fields `window`, `zone` and `anchor` of configuration.

use serde::Deserialize;
use serde::de::MapAccess;

use super::{Calendar, CalendarUnit, Weekday};
use crate::policy::serde::text::{FieldValue, text};
use crate::policy::{Settings, UnknownValueError};

/// The fields of a calendar that a file has.
#[derive(Default)]
pub(crate) struct CalendarFields {
    /// In place of the length of a window.
    unit: Option<CalendarUnit>,
    zone: Option<String>,
    anchor: Option<Anchor>,
}

impl CalendarFields {
    /// Reads the value of the field of this name. Returns whether it is a field of calendars.
    pub(crate) fn read<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "zone" => {
                let zone = text("the name of a `zone` such as \"Europe/Berlin\"");
                self.zone = Some(map.next_value_seed(zone)?);
            }
            "anchor" => self.anchor = map.next_value()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads a window that is a kind of calendar windows. Returns whether it is one.
    pub(crate) fn read_unit(&mut self, window: &str) -> bool {
        self.unit = window.parse().ok();
        self.unit.is_some()
    }

    /// Adds the calendar to the other settings of the file.
    pub(crate) fn add_to(self, settings: &mut Settings) -> Result<(), String> {
        let Self { unit, zone, anchor } = self;
        let Some(unit) = unit else {
            let is_absent = zone.is_none() && anchor.is_none();
            return is_absent.then_some(()).ok_or_else(|| {
                "`zone` and `anchor` are only for a `window` that is \"day\", \"week\", \"month\" or \"year\"".into()
            });
        };
        let (calendar, expected) = match (unit, anchor) {
            (_, None) => (Some(Calendar::from_first_day(unit)), ""),
            (CalendarUnit::Day, _) => (None, "absent: it begins with its first instant"),
            (CalendarUnit::Week, Some(Anchor::Text(day))) => {
                let day: Weekday = day.parse().map_err(|error: UnknownValueError| error.to_string())?;
                (Some(Calendar::week(day)), "")
            }
            (CalendarUnit::Week, _) => (None, "a day such as \"sunday\""),
            (CalendarUnit::Month, Some(Anchor::Day(day))) => (Some(Calendar::month(day)), ""),
            (CalendarUnit::Month, _) => (None, "a day from 1 to 31"),
            (CalendarUnit::Year, anchor) => (anchor.and_then(year), "a month and a day such as \"04-01\""),
        };
        let calendar = calendar.ok_or_else(|| format!("the `anchor` of a {unit} must be {expected}"))?;
        let calendar = zone.map_or(Ok(calendar), |zone| calendar.try_in_zone(&zone));
        *settings = settings.over(Settings::new().calendar(calendar.map_err(|error| error.to_string())?));
        Ok(())
    }
}

/// The day on which windows begin, as it is written.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a day for `anchor`, such as 15, \"sunday\" or \"04-01\"")]
enum Anchor {
    Day(u8),
    Text(String),
}

/// The years that begin on a date such as `04-01`.
fn year(anchor: Anchor) -> Option<Calendar> {
    let Anchor::Text(date) = anchor else { return None };
    let (month, day) = date.split_once('-').filter(|_| date.len() == 5)?;
    Some(Calendar::year(month.parse().ok()?, day.parse().ok()?))
}

impl Calendar {
    /// Adds the fields of a file that make this calendar.
    pub(in crate::policy) fn add_to(&self, fields: &mut Vec<(&'static str, FieldValue<'_>)>) {
        let Self { first, second, .. } = *self;
        let text = |text: &'static str| FieldValue::Text(text.into());
        fields.push(("window", text(self.unit.as_str())));
        let anchor = match self.unit {
            CalendarUnit::Day => None,
            CalendarUnit::Week => Weekday::ALL.get(usize::from(first)).map(|day| text(day.as_str())),
            CalendarUnit::Month => Some(FieldValue::Number(first.into())),
            CalendarUnit::Year => Some(FieldValue::Text(format!("{first:02}-{second:02}").into())),
        };
        fields.extend(anchor.map(|anchor| ("anchor", anchor)));
        fields.push(("zone", text(self.zone)));
    }
}
