//! The values of settings: as files have them, and as pages show them.

use std::str::FromStr;
use std::time::Duration;

use super::error::UnknownValueError;
use super::{Algorithm, Calendar, Mode, OnError, Window, WindowError};

/// A value of a limit, as a page shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// Units or parts.
    Number(u64),
    /// A length of time.
    Time(Duration),
    /// Windows of a calendar.
    Calendar(Calendar),
    /// One of several names, such as `token_bucket` or `off`.
    Name(&'static str),
}

/// The windows of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LimitWindow {
    Length(Duration),
    Calendar(Calendar),
}

/// What can be turned off, also where a setting below turns it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Switch<T> {
    Off,
    On(T),
}

/// The name of what is turned off.
const OFF: &str = "off";

/// A value in a file.
#[derive(Clone, Copy)]
pub(crate) enum Written<'t> {
    Number(u64),
    Text(&'t str),
}

/// Why a value in a file cannot be read. `None` for another type than is expected.
pub(crate) type ReadFault = Option<String>;

/// The type of a setting.
pub(crate) trait Setting: Copy {
    /// Whether files have a number, and not a text.
    const IS_NUMBER: bool = false;

    /// Whether it is a length of time.
    const IS_TIME: bool = false;

    /// Reads the value of a field.
    fn read(field: &'static str, written: Written<'_>) -> Result<Self, ReadFault>;

    fn value(self) -> Value;
}

fn text(written: Written<'_>) -> Result<&str, ReadFault> {
    if let Written::Text(text) = written { Ok(text) } else { Err(None) }
}

impl Setting for u64 {
    const IS_NUMBER: bool = true;

    fn read(_: &'static str, written: Written<'_>) -> Result<Self, ReadFault> {
        if let Written::Number(number) = written { Ok(number) } else { Err(None) }
    }

    fn value(self) -> Value {
        Value::Number(self)
    }
}

impl Setting for Duration {
    const IS_TIME: bool = true;

    fn read(field: &'static str, written: Written<'_>) -> Result<Self, ReadFault> {
        let time = text(written)?.parse().map_err(|error: WindowError| Some(error.about(field).to_string()));
        time.map(Window::duration)
    }

    fn value(self) -> Value {
        Value::Time(self)
    }
}

/// In files a length. Those of policies have calendars as well, in several fields.
impl Setting for LimitWindow {
    const IS_TIME: bool = true;

    fn read(field: &'static str, written: Written<'_>) -> Result<Self, ReadFault> {
        Duration::read(field, written).map(Self::Length)
    }

    fn value(self) -> Value {
        match self {
            Self::Length(length) => Value::Time(length),
            Self::Calendar(calendar) => Value::Calendar(calendar),
        }
    }
}

impl Setting for Switch<Duration> {
    const IS_TIME: bool = true;

    fn read(field: &'static str, written: Written<'_>) -> Result<Self, ReadFault> {
        if text(written)? == OFF { Ok(Self::Off) } else { Duration::read(field, written).map(Self::On) }
    }

    fn value(self) -> Value {
        if let Self::On(time) = self { Value::Time(time) } else { Value::Name(OFF) }
    }
}

impl Setting for Switch<Mode> {
    fn read(field: &'static str, written: Written<'_>) -> Result<Self, ReadFault> {
        let text = text(written)?;
        if text == OFF {
            return Ok(Self::Off);
        }
        let names = || Mode::ALL.iter().map(|mode| mode.as_str()).chain([OFF]).collect();
        let mode = text.parse().map_err(|_| UnknownValueError::new(field, text, names()).to_string());
        mode.map(Self::On).map_err(Some)
    }

    fn value(self) -> Value {
        Value::Name(if let Self::On(mode) = self { mode.as_str() } else { OFF })
    }
}

/// Implements [`Setting`] for types with names.
macro_rules! named {
    ($($type:ty),*) => {$(
        impl Setting for $type {
            fn read(_: &'static str, written: Written<'_>) -> Result<Self, ReadFault> {
                Self::from_str(text(written)?).map_err(|error| Some(error.to_string()))
            }

            fn value(self) -> Value {
                Value::Name(self.as_str())
            }
        }
    )*};
}

named!(Algorithm, OnError);
