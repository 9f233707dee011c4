//! Tables of the documentation that list fields, settings or their defaults, compared with the code.
//! `ratelimit-macros` compares those of arguments, `ratelimit-core` those of policies in files, `tests/guide`
//! those of features.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use ratelimit_actix::RateLimitConfig;
use ratelimit_core::overrides::Field;
use ratelimit_core::store::memory::DEFAULT_MAX_CALLERS;
use ratelimit_core::store::redis::{
    DEFAULT_BACKOFF, DEFAULT_BREAKER, DEFAULT_CONNECT_TIMEOUT, DEFAULT_DEADLINE, DEFAULT_PING_INTERVAL,
};
use ratelimit_core::{Breaker, Mode, OnError};

fn text(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap()
}

/// The cells of each row of the table whose head begins so.
fn rows(path: &str, head: &str) -> Vec<Vec<String>> {
    let text = text(path);
    let (_, table) = text.split_once(head).unwrap_or_else(|| panic!("{path} has no table {head}"));
    let rows = table.lines().skip(2).map_while(|line| line.strip_prefix("| "));
    let rows: Vec<Vec<String>> =
        rows.map(|row| row.trim_end_matches(" |").split(" | ").map(str::to_owned).collect()).collect();
    assert!(!rows.is_empty(), "{path}: {head}");
    rows
}

/// The words in backticks.
fn code(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The fields of the first column, each once, in the order of the alphabet.
fn fields(rows: &[Vec<String>]) -> Vec<&str> {
    let mut fields: Vec<&str> = rows.iter().flat_map(|row| code(&row[0])).collect();
    fields.sort_unstable();
    fields.dedup();
    fields
}

/// Fails unless the row of the field has each value.
fn check_values<'v>(path: &str, rows: &[Vec<String>], field: &str, values: impl Iterator<Item = &'v str>) {
    let row = rows.iter().find(|row| row[0] == format!("`{field}`"));
    let row = row.unwrap_or_else(|| panic!("{path} has no row of `{field}`"));
    for value in values {
        assert!(row[1].contains(&format!("`\"{value}\"`")), "{path}: the row of `{field}` lacks {value}");
    }
}

#[test]
fn the_tables_of_overrides_have_every_field() {
    const COUNTS: &str = "| field | counts of callers |";
    let mut expected: Vec<&str> =
        Field::ALL.iter().filter(|field| field.is_overridable()).map(|field| field.as_str()).collect();
    expected.sort_unstable();
    for path in ["ratelimit-core/src/overrides/file_format.md", "docs/overrides.md"] {
        let rows = rows(path, "| field | value |");
        assert_eq!(fields(&rows), expected, "{path}");
        check_values(path, &rows, "on_error", OnError::ALL.iter().map(|on_error| on_error.as_str()));
        check_values(path, &rows, "mode", Mode::ALL.iter().map(|mode| mode.as_str()).chain(["off"]));
    }
    assert_eq!(fields(&rows("docs/overrides.md", COUNTS)), expected, "docs/overrides.md: {COUNTS}");
}

#[test]
fn the_table_of_the_configuration_has_every_setting_and_the_defaults() {
    const PATH: &str = "docs/responses.md";
    let rows = rows(PATH, "| setting | what it chooses | default |");
    let source = text("ratelimit-actix/src/config.rs");
    let (_, builder) = source.split_once("impl RateLimitConfigBuilder {").unwrap();
    let setters = builder.split("    pub ").skip(1).filter_map(|item| {
        let name = item.trim_start_matches("const ").strip_prefix("fn ")?;
        name.split(['(', '<']).next()
    });
    let setters: Vec<&str> = setters.filter(|name| *name != "build").collect();
    let listed: Vec<&str> = rows.iter().flat_map(|row| code(&row[0])).collect();
    assert_eq!(listed, setters, "{PATH}: the settings, in the order of `RateLimitConfigBuilder`");
    let default = format!("{:?}", RateLimitConfig::default());
    let prefix = rows.iter().find(|row| row[0] == "`ipv6_prefix`").unwrap()[2].trim_end_matches(" bits");
    let same = RateLimitConfig::builder().ipv6_prefix(prefix.parse().unwrap()).build().unwrap();
    assert_eq!(format!("{same:?}"), default, "the default of `ipv6_prefix` is {prefix}");
    for field in ["headers", "body"] {
        let row = rows.iter().find(|row| row[0] == format!("`{field}`")).unwrap();
        let shown = code(&row[2]).next().unwrap();
        let is_default = [format!("{field}: {shown}"), format!("{field}: [{shown}]")];
        assert!(is_default.iter().any(|text| default.contains(text)), "`{field}` is {shown}: {default}");
    }
}

#[test]
fn the_table_of_times_has_the_defaults_of_the_store() {
    const PATH: &str = "docs/when-redis-fails.md";
    let rows = rows(PATH, "| setting | default | where |");
    let shown = |setting: &str| {
        let row = rows.iter().find(|row| row.get(2).is_some_and(|place| place.contains(setting)));
        row.unwrap_or_else(|| panic!("{PATH} has no row of `{setting}`"))[1].clone()
    };
    let millis = |time: Duration| format!("{} ms", time.as_millis());
    assert_eq!(shown("RedisStoreBuilder::deadline"), millis(DEFAULT_DEADLINE));
    assert!(shown("`connect_timeout`").starts_with(&millis(DEFAULT_CONNECT_TIMEOUT)));
    let (first, last) = (DEFAULT_BACKOFF.start().as_millis(), DEFAULT_BACKOFF.end().as_millis());
    let pauses = std::iter::successors(Some(first), |pause| Some(pause * 2).filter(|pause| *pause < last));
    let pauses: Vec<String> = pauses.map(|pause| pause.to_string()).collect();
    assert!(shown("`backoff`").starts_with(&format!("{}, then {last} ms", pauses.join(", "))));
    assert_eq!(shown("`ping_interval`"), "every second");
    assert_eq!(DEFAULT_PING_INTERVAL, Duration::from_secs(1));
    assert!(shown("`breaker`").starts_with("3 timeouts or 5 errors in a row"));
    assert_eq!(DEFAULT_BREAKER, Breaker::new().timeouts(3).errors(5));
    assert_eq!(shown("fallback_callers").replace(',', ""), DEFAULT_MAX_CALLERS.to_string());
    // The settings of the store are all in the table, or tell no time.
    let source = text("ratelimit-core/src/store/redis/builder.rs");
    let setters = source.split("    pub fn ").skip(1).filter_map(|item| item.split_once("(mut self, "));
    let times = setters.filter(|(_, rest)| {
        rest.split(')').next().unwrap().contains("Duration") || rest.starts_with("breaker")
    });
    for (name, _) in times.filter(|(name, _)| *name != "denial_cache_ttl") {
        shown(name);
    }
}
