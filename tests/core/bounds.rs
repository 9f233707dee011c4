//! The attribute does not depend on the core, and has its own copy of the grammar and the bounds. These tests
//! compare them.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::time::Duration;

use ratelimit_core::policy::{
    Calendar, CalendarUnit, Field, MAX_LEASE, MAX_NAME_LEN, MAX_SUB_WINDOWS, MAX_UNITS, MAX_WINDOW,
    MIN_WINDOW, Weekday, Window,
};
use ratelimit_core::{MAX_GROUP, Policy};

use crate::{attribute_bounds, attribute_calendar, attribute_window};

const MISTAKES: &str = include_str!("../../ratelimit-macros/src/tests/mistakes.txt");
const WINDOWS: &str = include_str!("../../ratelimit-macros/src/tests/windows.txt");
const ARGUMENTS: &str = include_str!("../../ratelimit-macros/src/parse/args/rows.rs");
const JUDGE: &str = include_str!("../../ratelimit-core/src/policy/numbers.rs");
const ERRORS: &str = include_str!("../../ratelimit-core/src/policy/error.rs");

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap()
}

#[test]
fn the_attribute_and_the_core_have_the_same_bounds() {
    assert_eq!(attribute_bounds::MAX_GROUP, MAX_GROUP);
    assert_eq!(attribute_bounds::MAX_NAME, MAX_NAME_LEN);
    assert_eq!(attribute_bounds::UNITS, 1..=MAX_UNITS);
    assert_eq!(attribute_bounds::SUB_WINDOWS, 1..=MAX_SUB_WINDOWS);
    assert_eq!(attribute_bounds::MAX_LEASE_MICROS, micros(MAX_LEASE));
    assert_eq!(attribute_window::MIN_MICROS, micros(MIN_WINDOW));
    assert_eq!(attribute_window::MAX_MICROS, micros(MAX_WINDOW));
    let default = Policy::builder("k").build();
    assert_eq!(attribute_bounds::DEFAULT_MAX, default.max());
    assert_eq!(attribute_bounds::DEFAULT_MICROS, micros(default.window()));
}

#[test]
fn every_field_of_a_limit_is_an_argument_of_the_attribute() {
    for field in Field::ALL {
        let row = format!(" {0} \"{0}\": ", field.as_str());
        assert!(ARGUMENTS.contains(&row), "{}", field.as_str());
    }
}

#[test]
fn the_attribute_and_the_core_have_the_same_calendar_windows() {
    let in_attribute: Vec<&str> =
        attribute_calendar::CALENDAR_UNITS.iter().map(|(unit, ..)| unit.name()).collect();
    let in_core: Vec<&str> = CalendarUnit::ALL.iter().map(|unit| unit.as_str()).collect();
    assert_eq!(in_attribute, in_core);
}

#[test]
fn the_attribute_and_the_core_have_the_same_days() {
    let in_attribute: Vec<(&str, &str)> = attribute_calendar::WEEKDAYS.to_vec();
    let variants: Vec<String> = Weekday::ALL.iter().map(|day| format!("{day:?}")).collect();
    let in_core: Vec<(&str, &str)> =
        Weekday::ALL.iter().zip(&variants).map(|(day, variant)| (day.as_str(), variant.as_str())).collect();
    assert_eq!(in_attribute, in_core);
    for (month, day) in (0..=13).flat_map(|month| (0..=33).map(move |day| (month, day))) {
        let is_accepted = Policy::builder("k").calendar(Calendar::year(month, day)).try_build().is_ok();
        assert_eq!(attribute_calendar::has_day(month, day), is_accepted, "month {month}, day {day}");
    }
}

#[test]
fn the_attribute_and_the_core_allow_the_same_characters_in_a_name() {
    for c in (0..=0x2ff).filter_map(char::from_u32).chain(['語', '🦀', '\u{2028}']) {
        let in_core = Policy::builder("k").build().with_name(c).is_ok();
        assert_eq!(attribute_bounds::is_name_char(c), in_core, "{c:?}");
    }
}

#[test]
fn the_attribute_and_the_core_read_windows_by_the_same_table() {
    let mut count = 0;
    for row in WINDOWS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let columns: Vec<&str> = row.split(" | ").collect();
        let text = columns[1].strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap();
        let (attribute, core) = (attribute_window::parse(text), text.parse::<Window>());
        match columns[..] {
            ["accepted", _, expected] => {
                let expected: u64 = expected.parse().unwrap();
                assert_eq!(attribute, Ok(expected), "{text:?}");
                assert_eq!(core.map(Window::duration), Ok(Duration::from_micros(expected)), "{text:?}");
            }
            ["refused", _, fault, meant] => {
                let (attribute, core) = (attribute.unwrap_err(), core.unwrap_err());
                let meant = (meant != "-").then_some(meant);
                assert_eq!((attribute.text.as_str(), attribute.meant.as_deref()), (fault, meant), "{text:?}");
                assert_eq!(core.suggestion(), meant, "{text:?}");
                assert!(core.to_string().starts_with(fault), "{text:?}: {core}");
            }
            _ => panic!("not a row of the table: {row}"),
        }
        count += 1;
    }
    assert!(count > 30, "{count} rows");
}

/// The attribute has words of its own for numbers that do not go together, with the number to write instead,
/// and the core is the judge of them. A rule that only one of them has makes a difference here.
#[test]
fn the_attribute_rejects_the_numbers_that_the_core_rejects() {
    let (mut compared, mut different, mut reasons) = ([0; 2], Vec::new(), String::new());
    for (line, next) in MISTAKES.lines().zip(MISTAKES.lines().skip(1)) {
        // Arguments are the entries of an inline table, but for code, keys that are templates, and the other
        // attribute.
        let key = if line.contains("key = ") { "" } else { "key = 'k', " };
        let text = format!("policy = {{ {key}{line} }}");
        let is_other = line.contains("key = \"{") || line.contains("\"concurrency\"");
        if is_other || toml::from_str::<toml::Table>(&text).is_err() {
            continue;
        }
        let policy = toml::from_str::<BTreeMap<String, Policy>>(&text);
        if policy.as_ref().is_err_and(|error| error.to_string().contains("unknown field")) {
            continue;
        }
        let is_rejected = next.trim_start().starts_with('^');
        if policy.is_err() != is_rejected {
            different.push(format!("{line}: {policy:?}"));
        }
        if let Err(error) = policy {
            reasons += &error.to_string();
        }
        compared[usize::from(is_rejected)] += 1;
    }
    assert!(different.is_empty(), "{different:#?}");
    assert!(compared[0] > 15 && compared[1] > 80, "{compared:?} accepted and rejected");
    let rules = JUDGE.split("PolicyError::").skip(1);
    let rules = rules.map(|rule| rule.split(|c: char| !c.is_alphanumeric()).next().unwrap());
    let unbroken = rules.filter(|rule| {
        let (_, message) = ERRORS.split_once(&format!("Self::{rule} =>")).unwrap();
        !reasons.contains(message.split('"').nth(1).unwrap())
    });
    // Left out above, and what no text of a window has.
    let expected = ["OnlyForRates", "WindowNotMicroseconds", "Window"];
    assert_eq!(unbroken.collect::<Vec<_>>(), expected, "rules that no case of mistakes.txt breaks");
}

#[test]
fn files_that_both_crates_have_are_equal() {
    for (core, macros, file) in [
        (
            include_str!("../../ratelimit-core/src/policy/window/grammar.rs"),
            include_str!("../../ratelimit-macros/src/parse/values/window/grammar.rs"),
            "grammar.rs",
        ),
        (
            include_str!("../../ratelimit-core/src/policy/suggest.rs"),
            include_str!("../../ratelimit-macros/src/parse/suggest.rs"),
            "suggest.rs",
        ),
    ] {
        assert_eq!(core, macros, "{file} differs: copy the changed file over the other");
    }
}
