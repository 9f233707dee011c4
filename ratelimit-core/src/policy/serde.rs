//! Policies in configuration files, with the feature `serde`: a key, a name, and settings.

#[cfg(test)]
mod tests;
pub(super) mod text;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::de::{DeserializeSeed, Error as _, MapAccess, Unexpected, Visitor};
use serde::ser::{Error as _, SerializeStruct};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use self::text::{FieldValue, text};
use super::calendar::CalendarFields;
use super::suggest::list;
use super::value::{Switch, Value, Written};
use super::{Field, Mode, Policy, Settings, Window};

/// The fields besides settings.
const OTHERS: &[&str] =
    if cfg!(feature = "calendar") { &["key", "name", "zone", "anchor"] } else { &["key", "name"] };

/// The names of all fields.
const FIELDS: [&str; OTHERS.len() + Field::ALL.len()] = {
    let mut fields = [""; OTHERS.len() + Field::ALL.len()];
    let mut at = 0;
    while at < fields.len() {
        fields[at] = if at < OTHERS.len() { OTHERS[at] } else { Field::ALL[at - OTHERS.len()].as_str() };
        at += 1;
    }
    fields
};

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_struct("Policy", &FIELDS, PolicyVisitor)
    }
}

/// Reads each field by its name, so that each error names the field, also in formats whose errors have no
/// position.
struct PolicyVisitor;

impl<'de> Visitor<'de> for PolicyVisitor {
    type Value = Policy;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the fields of a policy")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Policy, A::Error> {
        let (mut key, mut name, mut found) = (None, None::<String>, 0_u32);
        let mut reader = SettingsReader {
            settings: Settings::new(),
            field: Field::Max,
            calendar: CalendarFields::default(),
        };
        while let Some(Position(index)) = map.next_key_seed(text("the name of a field"))? {
            if found & (1 << index) != 0 {
                return Err(A::Error::duplicate_field(FIELDS[index]));
            }
            found |= 1 << index;
            if reader.calendar.read(FIELDS[index], &mut map)? {
                continue;
            }
            match FIELDS[index] {
                "key" => key = Some(map.next_value_seed(text("a string for `key`"))?),
                "name" => name = Some(map.next_value_seed(text("a string for `name`"))?),
                _ => {
                    reader.field = Field::ALL[index - OTHERS.len()];
                    map.next_value_seed(&mut reader)?;
                }
            }
        }
        let key: String = key.ok_or_else(|| A::Error::missing_field("key"))?;
        reader.calendar.add_to(&mut reader.settings).map_err(A::Error::custom)?;
        let numbers = reader.settings.judged().map_err(A::Error::custom)?;
        // The key is a placeholder: `with_key` checks and sets the real one.
        let policy = Policy { key: Cow::Borrowed(""), name: None, numbers, state_id: 0 };
        let named = |policy: Policy| match name {
            Some(name) => policy.with_name(name),
            None => Ok(policy),
        };
        policy.with_key(key).and_then(named).map_err(A::Error::custom)
    }
}

/// A field by its position.
struct Position(usize);

impl FromStr for Position {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let position = FIELDS.iter().position(|field| *field == name);
        position
            .map(Self)
            .ok_or_else(|| format!("unknown field `{name}`, expected one of {}", list(FIELDS, '`')))
    }
}

/// The settings that were read, and the field of the next value.
struct SettingsReader {
    settings: Settings,
    field: Field,
    calendar: CalendarFields,
}

impl<'de> DeserializeSeed<'de> for &mut SettingsReader {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.field.is_number() {
            deserializer.deserialize_u64(self)
        } else {
            deserializer.deserialize_str(self)
        }
    }
}

impl Visitor<'_> for &mut SettingsReader {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field {
            Field::Mode => f.write_str("the name of a `mode`"),
            field => write!(f, "{} for `{}`", field.expected(), field.as_str()),
        }
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<(), E> {
        self.read(Written::Number(number), Unexpected::Unsigned(number))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<(), E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        if self.field == Field::Window && self.calendar.read_unit(text) {
            return Ok(());
        }
        if self.field == Field::Mode {
            // `mode = "off"` exists only in overrides.
            self.settings.mode = Some(Switch::On(text.parse().map_err(E::custom)?));
            return Ok(());
        }
        self.read(Written::Text(text), Unexpected::Str(text))
    }
}

impl SettingsReader {
    fn read<E: serde::de::Error>(&mut self, written: Written<'_>, found: Unexpected<'_>) -> Result<(), E> {
        match self.settings.read(self.field, written) {
            Ok(()) => Ok(()),
            Err(Some(fault)) => Err(E::custom(fault)),
            Err(None) => Err(E::invalid_type(found, &self)),
        }
    }
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = Vec::with_capacity(FIELDS.len());
        fields.push(("key", FieldValue::Text(self.key().into())));
        fields.extend(self.name.as_deref().map(|name| ("name", FieldValue::Text(name.into()))));
        for (field, value) in self.settings().values() {
            let Some(value) = value else { continue };
            let entry = match value {
                // The default is not written, so that older versions, which have no `mode`, read the file.
                Value::Name(_) if field == Field::Mode && self.mode() == Mode::Enforce => continue,
                Value::Number(number) => FieldValue::Number(number),
                Value::Name(name) => FieldValue::Text(name.into()),
                Value::Time(time) => match Window::try_from(time) {
                    Ok(window) => FieldValue::Text(window.to_string().into()),
                    Err(error) => return Err(S::Error::custom(error.about(field.as_str()))),
                },
                Value::Calendar(calendar) => {
                    calendar.add_to(&mut fields);
                    continue;
                }
            };
            fields.push((field.as_str(), entry));
        }
        let mut written = serializer.serialize_struct("Policy", fields.len())?;
        for (name, entry) in &fields {
            written.serialize_field(name, entry)?;
        }
        written.end()
    }
}
