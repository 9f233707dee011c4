//! Values in files: texts, and numbers beside them.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{DeserializeSeed, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::policy::{Algorithm, Mode, OnError, Window};

/// A field as it is written.
#[derive(Serialize)]
#[serde(untagged)]
pub(in crate::policy) enum FieldValue<'p> {
    Number(u64),
    Text(Cow<'p, str>),
}

/// Reads a value from its text. Errors say what is expected.
pub(in crate::policy) struct Text<T>(&'static str, PhantomData<T>);

pub(in crate::policy) const fn text<T>(expected: &'static str) -> Text<T> {
    Text(expected, PhantomData)
}

impl<'de, T: FromStr<Err: fmt::Display>> DeserializeSeed<'de> for Text<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// Implements `Serialize` and `Deserialize` for a value that is a text.
macro_rules! text_values {
    ($($(#[$attribute:meta])* $type:ty: $expected:literal;)+) => {$(
        $(#[$attribute])*
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        $(#[$attribute])*
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(text($expected))
            }
        }
    )+};
}

text_values! {
    Algorithm: "the name of an `algorithm`";
    OnError: "the name of a failure policy for `on_error`";
    Mode: "the name of a `mode`";
    Window: "a `window` such as \"60s\"";
    #[cfg(feature = "calendar")]
    crate::policy::CalendarUnit: "\"day\", \"week\", \"month\" or \"year\"";
}
