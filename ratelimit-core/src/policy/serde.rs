//! Policies in configuration files, with the feature `serde`.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Unexpected, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[cfg(feature = "calendar")]
use super::calendar::{Anchor, Calendar, CalendarUnit};
use super::{Algorithm, Mode, OnError, Policy, Window, WindowError};

/// The fields of a policy. Only `key` is required; the others have the defaults of the builder.
///
/// Each field is read by a function of its own, so that an error names it in every format.
#[derive(Serialize, Deserialize)]
#[serde(rename = "Policy", deny_unknown_fields)]
pub(super) struct Fields {
    #[serde(deserialize_with = "key")]
    key: String,
    #[serde(default, deserialize_with = "name", skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, deserialize_with = "max", skip_serializing_if = "Option::is_none")]
    max: Option<u64>,
    #[serde(default, deserialize_with = "window", skip_serializing_if = "Option::is_none")]
    window: Option<WindowField>,
    #[cfg(feature = "calendar")]
    #[serde(default, deserialize_with = "zone", skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    #[cfg(feature = "calendar")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    anchor: Option<Anchor>,
    // By default that of the window.
    #[serde(default)]
    algorithm: Option<Algorithm>,
    #[serde(default, deserialize_with = "sub_windows", skip_serializing_if = "Option::is_none")]
    sub_windows: Option<u64>,
    #[serde(default, deserialize_with = "burst", skip_serializing_if = "Option::is_none")]
    burst: Option<u64>,
    #[serde(default)]
    on_error: OnError,
    #[serde(default, deserialize_with = "block", skip_serializing_if = "Option::is_none")]
    block: Option<Window>,
    #[serde(default, skip_serializing_if = "is_enforced")]
    mode: Mode,
    #[serde(default, deserialize_with = "lease", skip_serializing_if = "Option::is_none")]
    lease: Option<LeaseField>,
}

/// A length, or the kind of a calendar window.
#[derive(Serialize)]
#[serde(untagged)]
enum WindowField {
    Length(Window),
    #[cfg(feature = "calendar")]
    Calendar(CalendarUnit),
}

impl FromStr for WindowField {
    type Err = WindowError;

    fn from_str(text: &str) -> Result<Self, WindowError> {
        #[cfg(feature = "calendar")]
        if let Ok(unit) = text.parse() {
            return Ok(Self::Calendar(unit));
        }
        text.parse().map(Self::Length)
    }
}

/// How long units of a hot caller are held. `Off` holds none, also in a store with a default.
enum LeaseField {
    Time(Window),
    Off,
}

impl Serialize for LeaseField {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Time(time) => time.serialize(serializer),
            Self::Off => serializer.serialize_str("off"),
        }
    }
}

// Files that older versions read have no `mode`.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_enforced(mode: &Mode) -> bool {
    *mode == Mode::Enforce
}

fn key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    deserializer.deserialize_str(Text("a string for `key`", PhantomData))
}

/// Defines the readers of fields that need not be there.
macro_rules! readers {
    ($($(#[$attribute:meta])* $field:ident: $type:ty = $visitor:expr, $method:ident;)+) => {$(
        $(#[$attribute])*
        fn $field<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<$type>, D::Error> {
            deserializer.$method($visitor).map(Some)
        }
    )+};
}

readers! {
    name: String = Text("a string for `name`", PhantomData), deserialize_str;
    max: u64 = Number("a whole number for `max`"), deserialize_u64;
    window: WindowField = Text("a `window` such as \"60s\"", PhantomData), deserialize_str;
    #[cfg(feature = "calendar")]
    zone: String = Text("the name of a `zone` such as \"Europe/Berlin\"", PhantomData), deserialize_str;
    sub_windows: u64 = Number("a whole number for `sub_windows`"), deserialize_u64;
    burst: u64 = Number("a whole number for `burst`"), deserialize_u64;
    block: Window = Time("block", "a time for `block` such as \"10m\""), deserialize_str;
    lease: LeaseField = LeaseVisitor(Time("lease", "a time for `lease` such as \"100ms\", or \"off\"")), deserialize_str;
}

/// Reads a time by the grammar of windows, for the field of this name.
struct Time(&'static str, &'static str);

impl Visitor<'_> for Time {
    type Value = Window;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.1)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Window, E> {
        text.parse().map_err(|error: WindowError| E::custom(error.about(self.0)))
    }
}

struct LeaseVisitor(Time);

impl Visitor<'_> for LeaseVisitor {
    type Value = LeaseField;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<LeaseField, E> {
        if text == "off" { Ok(LeaseField::Off) } else { self.0.visit_str(text).map(LeaseField::Time) }
    }
}

/// Reads a number of units or parts.
struct Number(&'static str);

impl Visitor<'_> for Number {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<u64, E> {
        u64::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The compiler asks here whether a file has a field that is new in policies.
        #[rustfmt::skip]
        let Self {
            key: _, name: _, algorithm: _, max: _, window_us: _, calendar: _, sub_windows: _, burst: _, on_error: _, block_us: _,
            mode: _, lease_us: _, state_id: _,
        } = self;
        let time = |field: &str, time: Option<Duration>| {
            let time = time.map(Window::try_from).transpose();
            time.map_err(|error| S::Error::custom(error.about(field)))
        };
        let fields = Fields {
            key: self.key().to_owned(),
            name: self.name.as_deref().map(str::to_owned),
            max: Some(self.max()),
            window: self.rate_window().map(|_| self.window_field().map_err(S::Error::custom)).transpose()?,
            #[cfg(feature = "calendar")]
            zone: self.calendar().map(|calendar| calendar.zone().to_owned()),
            #[cfg(feature = "calendar")]
            anchor: self.calendar().and_then(Calendar::anchor_field),
            algorithm: Some(self.algorithm()),
            sub_windows: self.algorithm().has_sub_windows().then(|| self.sub_windows()),
            burst: self.algorithm().has_burst().then(|| self.capacity()),
            on_error: self.on_error(),
            block: time("block", self.block())?,
            mode: self.mode(),
            lease: if self.has_no_lease() {
                Some(LeaseField::Off)
            } else {
                time("lease", self.lease())?.map(LeaseField::Time)
            },
        };
        fields.serialize(serializer)
    }
}

impl Policy {
    fn window_field(&self) -> Result<WindowField, WindowError> {
        #[cfg(feature = "calendar")]
        if let Some(calendar) = self.calendar() {
            return Ok(WindowField::Calendar(calendar.unit()));
        }
        Window::try_from(self.window()).map(WindowField::Length)
    }
}

impl TryFrom<Fields> for Policy {
    type Error = String;

    fn try_from(fields: Fields) -> Result<Self, String> {
        // The real key is owned, and the builder borrows.
        let builder = Self::builder("key").on_error(fields.on_error).mode(fields.mode);
        let builder = fields.max.map_or(builder, |max| builder.max(max));
        #[cfg(feature = "calendar")]
        let builder = calendar(&fields)?.map_or(builder, |calendar| builder.calendar(calendar));
        let builder = match fields.window {
            Some(WindowField::Length(window)) => builder.window(window.duration()),
            _ => builder,
        };
        let builder = fields.algorithm.map_or(builder, |algorithm| builder.algorithm(algorithm));
        let builder = fields.sub_windows.map_or(builder, |sub_windows| builder.sub_windows(sub_windows));
        let builder = fields.burst.map_or(builder, |burst| builder.burst(burst));
        let builder = fields.block.map_or(builder, |block| builder.block(block.duration()));
        let builder = match fields.lease {
            Some(LeaseField::Time(lease)) => builder.lease(lease.duration()),
            Some(LeaseField::Off) => builder.without_lease(),
            None => builder,
        };
        let policy = builder.try_build().and_then(|policy| policy.with_key(fields.key));
        let named = |policy: Self| match fields.name {
            Some(name) => policy.with_name(name),
            None => Ok(policy),
        };
        policy.and_then(named).map_err(|error| error.to_string())
    }
}

/// The calendar of the fields, if the window is one of a calendar.
#[cfg(feature = "calendar")]
fn calendar(fields: &Fields) -> Result<Option<Calendar>, String> {
    match &fields.window {
        Some(WindowField::Calendar(unit)) => {
            Calendar::from_fields(*unit, fields.zone.as_deref(), fields.anchor.clone()).map(Some)
        }
        _ if fields.zone.is_some() || fields.anchor.is_some() => Err(
            "`zone` and `anchor` are only for a `window` that is \"day\", \"week\", \"month\" or \"year\""
                .to_owned(),
        ),
        _ => Ok(None),
    }
}

/// Reads a value from its text.
struct Text<T>(&'static str, PhantomData<T>);

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
    ($($type:ty: $expected:literal;)+) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Text($expected, PhantomData))
            }
        }
    )+};
}

#[cfg(feature = "calendar")]
text_values! {
    CalendarUnit: "\"day\", \"week\", \"month\" or \"year\"";
}

text_values! {
    Algorithm: "the name of an `algorithm`";
    OnError: "the name of a failure policy for `on_error`";
    Mode: "the name of a `mode`";
    Window: "a `window` such as \"60s\"";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Parameter;

    fn read(text: &str) -> Result<Policy, toml::de::Error> {
        toml::from_str(text)
    }

    #[test]
    fn a_key_alone_is_a_policy_with_the_defaults_of_the_builder() {
        assert_eq!(read("key = 'k'").unwrap(), Policy::builder("k").build());
    }

    #[test]
    fn every_field_is_read() {
        let bucket = "key = 'k'\nname = 'n'\nmax = 5\nwindow = '1h30m'\nalgorithm = 'token_bucket'\nburst = 9\n\
                      on_error = 'deny'\nblock = '5h'\nmode = 'shadow'";
        let expected = Policy::builder("k")
            .name("n")
            .max(5)
            .window(Duration::from_secs(5400))
            .algorithm(Algorithm::TokenBucket)
            .burst(9)
            .on_error(OnError::Deny)
            .block(Duration::from_secs(5 * 3600))
            .mode(Mode::Shadow);
        assert_eq!(read(bucket).unwrap(), expected.build());
        let leased = Policy::builder("k").sub_windows(6).lease(Duration::from_millis(100)).build();
        assert_eq!(read("key = 'k'\nsub_windows = 6\nlease = '100ms'").unwrap(), leased);
    }

    #[test]
    fn the_table_of_the_documentation_has_every_field_and_value() {
        let table = include_str!("serde.md").split_once("| field | value |\n").unwrap().1;
        let rows: Vec<_> =
            table.lines().skip(1).map_while(|line| line.strip_prefix("| ")?.split_once(" | ")).collect();
        let code = |text: &str| text.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
        let mut listed: Vec<_> = rows.iter().flat_map(|(fields, _)| code(fields)).collect();
        listed.sort_unstable();
        listed.dedup();
        let error = read("key = 'k'\nno_field = 1").unwrap_err();
        let mut fields = code(error.message().split_once("expected one of ").unwrap().1);
        fields.sort_unstable();
        #[cfg(not(feature = "calendar"))]
        listed.retain(|field| !["zone", "anchor"].contains(&field.as_str()));
        assert_eq!(listed, fields, "serde.md");
        let values = |field: &str| {
            let row = rows.iter().find(|(fields, _)| *fields == format!("`{field}`"));
            row.map_or_else(|| panic!("serde.md has no row of `{field}`"), |(_, value)| *value)
        };
        for (field, names) in [
            ("algorithm", Algorithm::EVERY.iter().map(|value| value.as_str()).collect::<Vec<_>>()),
            ("on_error", OnError::ALL.iter().map(|value| value.as_str()).collect()),
            ("mode", Mode::ALL.iter().map(|value| value.as_str()).collect()),
        ] {
            for name in names {
                assert!(values(field).contains(&format!("`\"{name}\"`")), "serde.md, `{field}`: {name}");
            }
        }
    }

    #[test]
    fn every_policy_is_written_as_it_is_read() {
        for &algorithm in Algorithm::ALL {
            for &on_error in OnError::ALL {
                let plain = Policy::builder("k").algorithm(algorithm).on_error(on_error);
                let numbers = match algorithm.spec().parameter {
                    Parameter::Burst => plain.burst(7),
                    Parameter::SubWindows => plain.sub_windows(6),
                    Parameter::None => plain,
                };
                let blocking = numbers.block(Duration::from_secs(86_400)).mode(Mode::Shadow);
                let lease = Duration::from_millis(250);
                let leased = numbers.lease(lease).try_build().unwrap_or_else(|_| numbers.build());
                let unleased = numbers.without_lease().build();
                for policy in
                    [plain.build(), numbers.name("n").max(3).build(), blocking.build(), leased, unleased]
                {
                    assert_eq!(read(&toml::to_string(&policy).unwrap()).unwrap(), policy);
                }
            }
        }
        let written = toml::to_string(&Policy::builder("k").without_lease().build()).unwrap();
        assert!(written.ends_with("\nlease = \"off\"\n"), "{written}");
        let streams = Policy::concurrency("streams", 3);
        let written = toml::to_string(&streams).unwrap();
        assert_eq!(read(&written).unwrap(), streams);
        assert_eq!(
            written,
            "key = \"streams\"\nmax = 3\nalgorithm = \"concurrency\"\non_error = \"local\"\n"
        );
        let written = toml::to_string(&Policy::new("k", 10, Duration::from_secs(90))).unwrap();
        let expected = "key = \"k\"\nmax = 10\nwindow = \"1m30s\"\nalgorithm = \"sliding_window_counter\"\n\
                        sub_windows = 1\non_error = \"local\"\n";
        assert_eq!(written, expected);
    }

    #[test]
    fn a_window_with_a_part_of_a_millisecond_cannot_be_written() {
        let error = toml::to_string(&Policy::new("k", 1, Duration::from_micros(1_500))).unwrap_err();
        assert!(
            error.to_string().contains("`window` must be from 1ms to 366d in whole milliseconds"),
            "{error}"
        );
        let blocking =
            Policy::builder("k").window(Duration::from_secs(1)).block(Duration::from_micros(1_000_500));
        let error = toml::to_string(&blocking.build()).unwrap_err();
        assert!(error.to_string().contains("`block` must be from 1ms"), "{error}");
    }

    #[cfg(feature = "calendar")]
    #[test]
    fn windows_of_a_calendar_are_read_and_written() {
        use crate::policy::{Calendar, Weekday};

        for (fields, calendar) in [
            ("window = 'day'", Calendar::day()),
            ("window = 'week'", Calendar::week(Weekday::Monday)),
            ("window = 'week'\nanchor = 'sunday'", Calendar::week(Weekday::Sunday)),
            ("window = 'month'\nzone = 'Europe/Berlin'", Calendar::month(1).in_zone("Europe/Berlin")),
            ("window = 'month'\nanchor = 31\nalgorithm = 'fixed_window'", Calendar::month(31)),
            ("window = 'year'\nanchor = '04-06'\nzone = 'UTC'", Calendar::year(4, 6)),
        ] {
            let policy = read(&format!("key = 'k'\n{fields}")).unwrap();
            assert_eq!(policy, Policy::builder("k").calendar(calendar).build());
            assert_eq!(read(&toml::to_string(&policy).unwrap()).unwrap(), policy);
        }
        for (fields, expected) in [
            ("window = 'months'", "`window` must begin with a number"),
            (
                "window = 'month'\nzone = 'Europe/Berln'",
                "unknown time zone \"Europe/Berln\", did you mean \"Europe/Berlin\"?",
            ),
            ("window = 'month'\nzone = 2", "expected the name of a `zone`"),
            ("window = 'month'\nanchor = 32", "a month must begin on a day from 1 to 31"),
            ("window = 'month'\nanchor = 'sunday'", "the `anchor` of a month must be a day from 1 to 31"),
            ("window = 'month'\nanchor = 1.5", "expected a day for `anchor`, such as 15"),
            ("window = 'week'\nanchor = 'sundy'", "did you mean \"sunday\"?"),
            ("window = 'week'\nanchor = 1", "the `anchor` of a week must be a day such as"),
            ("window = 'year'\nanchor = '02-30'", "and a year on a day that it has"),
            ("window = 'year'\nanchor = '4-1'", "must be a month and a day such as \"04-01\""),
            ("window = 'day'\nanchor = 1", "the `anchor` of a day must be absent"),
            ("window = 'month'\nalgorithm = 'token_bucket'", "only for the fixed window"),
            ("window = '60s'\nzone = 'UTC'", "`zone` and `anchor` are only for a `window` that is"),
            ("anchor = 1", "`zone` and `anchor` are only for a `window` that is"),
        ] {
            let error = read(&format!("key = 'k'\n{fields}")).unwrap_err().to_string();
            assert!(error.contains(expected), "{fields}\n{error}");
        }
    }

    #[test]
    fn an_error_names_the_field_and_what_is_expected() {
        for (fields, expected) in [
            ("max = 1", "missing field `key`"),
            ("key = ''", "key must be 1 to 128"),
            ("key = 'a b'", "key must be 1 to 128"),
            ("key = 5", "expected a string for `key`"),
            ("key = 'k'\nname = '{'", "name must be 1 to 128"),
            ("key = 'k'\nmax = 0", "max must be from 1 to 1000000000000"),
            ("key = 'k'\nmax = 1000000000001", "max must be from 1 to 1000000000000"),
            ("key = 'k'\nmax = -1", "expected a whole number for `max`"),
            ("key = 'k'\nmax = 1.5", "expected a whole number for `max`"),
            ("key = 'k'\nmax = '5'", "expected a whole number for `max`"),
            ("key = 'k'\nsub_windows = '5'", "expected a whole number for `sub_windows`"),
            ("key = 'k'\nburst = [1]", "expected a whole number for `burst`"),
            ("key = 'k'\nname = 1", "expected a string for `name`"),
            ("key = 'k'\nwindow = '60'", "`window` needs a unit, found \"60\"; did you mean \"60s\"?"),
            ("key = 'k'\nwindow = '0s'", "`window` must be at least 1ms"),
            ("key = 'k'\nwindow = '367d'", "`window` must be at most 366d"),
            ("key = 'k'\nwindow = 60", "expected a `window` such as \"60s\""),
            ("key = 'k'\nalgorithm = 'tokenbucket'", "for `algorithm`: expected one of \"fixed_window\""),
            ("key = 'k'\nalgorithm = 'tokenbucket'", "did you mean \"token_bucket\"?"),
            ("key = 'k'\nalgorithm = 1", "expected the name of an `algorithm`"),
            ("key = 'k'\nsub_windows = 0", "sub_windows must be from 1 to 60"),
            ("key = 'k'\nsub_windows = 61", "sub_windows must be from 1 to 60"),
            ("key = 'k'\nsub_windows = 7", "window must be a whole multiple of sub_windows"),
            ("key = 'k'\nalgorithm = 'fixed_window'\nsub_windows = 2", "sub_windows is only for"),
            ("key = 'k'\nburst = 2", "burst is only for the token bucket"),
            ("key = 'k'\nalgorithm = 'token_bucket'\nburst = 0", "burst must be from 1"),
            (
                "key = 'k'\nalgorithm = 'token_bucket'\nmax = 1\nwindow = '366d'\nburst = 2",
                "burst * window / max",
            ),
            (
                "key = 'k'\non_error = 'close'",
                "for `on_error`: expected one of \"local\", \"deny\", \"allow\"",
            ),
            ("key = 'k'\non_error = true", "expected the name of a failure policy for `on_error`"),
            ("key = 'k'\nblock = '10s'", "block must be at least the window"),
            ("key = 'k'\nblock = 600", "expected a time for `block` such as \"10m\""),
            ("key = 'k'\nblock = '60'", "`block` needs a unit, found \"60\"; did you mean \"60s\"?"),
            ("key = 'k'\nlease = '0ms'", "`lease` must be at least 1ms, found \"0ms\""),
            ("key = 'k'\nlease = 5", "expected a time for `lease` such as \"100ms\", or \"off\""),
            ("key = 'k'\nmode = 'dark'", "for `mode`: expected one of \"enforce\", \"shadow\""),
            ("key = 'k'\nmode = 1", "expected the name of a `mode`"),
            ("key = 'k'\nburts = 2", "unknown field `burts`, expected one of `key`, `name`, `max`, `window`"),
            ("key = 'k'\nkey = 'j'", "duplicate key"),
            ("key = 'k'\nalgorithm = 'concurrency'\nmax = 0", "max must be from 1"),
            (
                "key = 'k'\nalgorithm = 'concurrency'\nwindow = '10s'",
                "window, block and lease are not for a concurrency",
            ),
            (
                "key = 'k'\nalgorithm = 'concurrency'\nblock = '10s'",
                "window, block and lease are not for a concurrency",
            ),
            (
                "key = 'k'\nalgorithm = 'concurrency'\nlease = '1s'",
                "window, block and lease are not for a concurrency",
            ),
            ("key = 'k'\nalgorithm = 'concurrency'\nburst = 2", "burst is only for the token bucket"),
        ] {
            let error = read(fields).unwrap_err().to_string();
            assert!(error.contains(expected), "{fields}\n{error}");
        }
    }
}
