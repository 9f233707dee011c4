//! Tests of policies as files have them.

use std::time::Duration;

use super::*;
use crate::policy::{Algorithm, OnError, Parameter};

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
    assert_eq!(read("key = 'k'\nblock = 'off'").unwrap(), Policy::builder("k").build());
}

#[test]
fn the_table_of_the_documentation_has_every_field_and_value() {
    let table = include_str!("../serde.md").split_once("| field | value |\n").unwrap().1;
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
        ("on_error", OnError::ALL.iter().map(|value| value.as_str()).collect::<Vec<_>>()),
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
            for policy in [plain.build(), numbers.name("n").max(3).build(), blocking.build(), leased] {
                assert_eq!(read(&toml::to_string(&policy).unwrap()).unwrap(), policy);
            }
        }
    }
    let streams = Policy::concurrency("streams", 3);
    let written = toml::to_string(&streams).unwrap();
    assert_eq!(read(&written).unwrap(), streams);
    assert_eq!(written, "key = \"streams\"\nmax = 3\nalgorithm = \"concurrency\"\non_error = \"local\"\n");
    let written = toml::to_string(&Policy::new("k", 10, Duration::from_secs(90))).unwrap();
    let expected = "key = \"k\"\nmax = 10\nwindow = \"1m30s\"\nalgorithm = \"sliding_window_counter\"\n\
                    sub_windows = 1\non_error = \"local\"\n";
    assert_eq!(written, expected);
}

#[test]
fn a_window_with_a_part_of_a_millisecond_cannot_be_written() {
    let error = toml::to_string(&Policy::new("k", 1, Duration::from_micros(1_500))).unwrap_err();
    assert!(error.to_string().contains("`window` must be from 1ms to 366d in whole milliseconds"), "{error}");
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
        ("key = 'k'\nwindow = 60", "expected a time such as \"60s\" for `window`"),
        ("key = 'k'\nalgorithm = 'tokenbucket'", "for `algorithm`: expected one of \"fixed_window\""),
        ("key = 'k'\nalgorithm = 'tokenbucket'", "did you mean \"token_bucket\"?"),
        ("key = 'k'\nalgorithm = 1", "expected the name of an algorithm for `algorithm`"),
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
        ("key = 'k'\non_error = 'close'", "for `on_error`: expected one of \"local\", \"deny\", \"allow\""),
        ("key = 'k'\non_error = true", "expected the name of a failure policy for `on_error`"),
        ("key = 'k'\nblock = '10s'", "block must be at least the window"),
        ("key = 'k'\nblock = 600", "expected a time such as \"10m\", or \"off\" for `block`"),
        ("key = 'k'\nblock = '60'", "`block` needs a unit, found \"60\"; did you mean \"60s\"?"),
        ("key = 'k'\nlease = '0ms'", "`lease` must be at least 1ms, found \"0ms\""),
        ("key = 'k'\nlease = 5", "expected a time such as \"100ms\" for `lease`"),
        ("key = 'k'\nmode = 'dark'", "for `mode`: expected one of \"enforce\", \"shadow\""),
        ("key = 'k'\nmode = 1", "expected the name of a `mode`"),
        ("key = 'k'\nmode = 'off'", "for `mode`: expected one of \"enforce\", \"shadow\""),
        ("key = 'k'\nburts = 2", "unknown field `burts`, expected one of `key`, `name`"),
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
