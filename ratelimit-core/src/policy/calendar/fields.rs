//! Calendars as the fields `window`, `zone` and `anchor` of configuration.

use serde::Deserialize;
use serde::de::MapAccess;

use super::{Calendar, CalendarUnit, Weekday};
use crate::policy::Settings;
use crate::policy::serde::FieldValue;
use crate::policy::serde::text::Text;

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
                let zone = Text::new("the name of a `zone` such as \"Europe/Berlin\"");
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
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a day for `anchor`, such as 15, \"sunday\" or \"04-01\"")]
enum Anchor {
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

    /// Adds the fields of a file that make this calendar.
    pub(crate) fn add_to(&self, fields: &mut Vec<(&'static str, FieldValue<'_>)>) {
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
