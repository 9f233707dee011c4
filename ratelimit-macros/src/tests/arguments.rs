//! Mistakes in arguments: message and span of each.

use std::sync::LazyLock;

use super::check;
use crate::parse::algorithm;

const ARGUMENTS: &str = "\nexpected one of: `max`, `window`, `key`, `name`, `by`, `on_missing`, `on_error`, `algorithm`, \
                         `sub_windows`, `burst`, `cost`, `block`, `mode`, `count`, `lease`, `skip`, `plan`, `policy`, `inner`, `crate`";
/// The end of each message about an unknown algorithm.
static ALGORITHMS: LazyLock<String> = LazyLock::new(|| {
    let names = algorithm::ALGORITHMS.iter().map(|row| format!("{:?}", row.name));
    format!("\nexpected one of: {}", names.collect::<Vec<_>>().join(", "))
});

#[test]
fn numbers_are_checked_against_their_bounds() {
    let bounds = "`max` must be from 1 to 1000000000000, found";
    let help = "; write for example `max = 10`";
    check("max = 0", &[("0", &format!("{bounds} 0{help}"))]);
    check("max = -1", &[("-1", &format!("{bounds} -1{help}"))]);
    check("max = 1_000_000_000_001", &[("1_000_000_000_001", &format!("{bounds} 1000000000001{help}"))]);
    check(
        "max = 99999999999999999999",
        &[("99999999999999999999", &format!("{bounds} 99999999999999999999{help}"))],
    );
    check("max = 1.5", &[("1.5", &format!("`max` takes a whole number, found 1.5{help}"))]);
    check("max = \"ten\"", &[("\"ten\"", &format!("`max` takes an integer, not a string{help}"))]);
    check("max = \"10\"", &[("\"10\"", "`max` takes an integer, not a string; did you mean `max = 10`?")]);
    check("max = 10k", &[("10k", "`max` takes an integer, found `10k`; did you mean `max = 10`?")]);
    check("max = true", &[("true", &format!("`max` takes an integer, not a boolean{help}"))]);
    check("max = 'c'", &[("'c'", &format!("`max` takes an integer, not a character{help}"))]);
    check(
        "algorithm = \"token_bucket\", burst = || 10",
        &[(
            "|| 10",
            "`burst` takes an integer or a const expression, not a closure; write for example `burst = 20`",
        )],
    );
    check(
        "sub_windows = 61",
        &[("61", "`sub_windows` must be from 1 to 60, found 61; write for example `sub_windows = 6`")],
    );
    check(
        "cost = 0",
        &[("0", "`cost` must be from 1 to 1000000000000, found 0; write for example `cost = 5`")],
    );
    check("max = Self::MAX", &[("Self", SELF_IN_ATTRIBUTE)]);
    check("by = Self::caller", &[("Self", SELF_IN_ATTRIBUTE)]);
}

const SELF_IN_ATTRIBUTE: &str = "`Self` cannot be named in #[rate_limit]; write the name of the type instead";

#[test]
fn windows_are_string_literals() {
    check(
        "window = 60",
        &[("60", "`window` takes a string, not an integer; did you mean `window = \"60s\"`?")],
    );
    check(
        "window = 5m",
        &[("5m", "`window` takes a string, not an integer; did you mean `window = \"5m\"`?")],
    );
    check(
        "window = 0",
        &[("0", "`window` takes a string, not an integer; did you mean `window = \"60s\"`?")],
    );
    check(
        "window = WINDOW",
        &[("WINDOW", "`window` takes a string literal, not a path; write for example `window = \"60s\"`")],
    );
    check(
        "window = Duration::from_secs(60)",
        &[(
            "Duration::from_secs(60)",
            "`window` takes a string literal, not a call; write for example `window = \"60s\"`",
        )],
    );
    check(
        "window = \"60\"",
        &[("\"60\"", "`window` needs a unit, found \"60\"; did you mean `window = \"60s\"`?")],
    );
}

#[test]
fn keys_and_names_have_allowed_characters_only() {
    let help = "write for example `key = \"user-api\"`";
    check("key = \"\"", &[("\"\"", &format!("`key` must not be empty: {help}"))]);
    check("name = \"\"", &[("\"\"", "`name` must not be empty: write for example `name = \"hourly\"`")]);
    check(
        "name = \"user:{id}\"",
        &[(
            "\"user:{id}\"",
            "`name` must not contain braces, only `key` has placeholders; write for example `name = \"hourly\"`",
        )],
    );
    check(
        "key = \"user:{{id}}\"",
        &[(
            "\"user:{{id}}\"",
            "a key has no doubled braces, found \"user:{{id}}\": braces are for placeholders, such as \
             `key = \"user:{user_id}\"`, and cannot be escaped",
        )],
    );
    check(
        "key = \"user:{id} x\"",
        &[("\"user:{id} x\"", "`key` must not contain blanks; did you mean `key = \"user:{id}-x\"`?")],
    );
    check(
        "key = \"user api\"",
        &[("\"user api\"", "`key` must not contain blanks; did you mean `key = \"user-api\"`?")],
    );
    check("key = \" \"", &[("\" \"", &format!("`key` must not contain blanks: {help}"))]);
    let allowed = "`key` takes printable ASCII without blanks, braces, quotes and backslashes, found";
    check(r#"key = "a\\b""#, &[(r#""a\\b""#, &format!("{allowed} '\\\\': {help}"))]);
    check(r#"key = "a\"b""#, &[(r#""a\"b""#, &format!("{allowed} '\"': {help}"))]);
    check("key = \"größe\"", &[("\"größe\"", &format!("{allowed} 'ö': {help}"))]);
    check("key = \"a\\u{7f}\"", &[("\"a\\u{7f}\"", &format!("{allowed} '\\u{{7f}}': {help}"))]);
    let long = format!("\"{}\"", "x".repeat(129));
    check(&format!("key = {long}"), &[(&long, "`key` must be at most 128 bytes long, found 129")]);
    check(&format!("key = \"{}\"", "x".repeat(128)), &[]);
    check(
        "key = user_api",
        &[("user_api", "`key` takes a string literal; did you mean `key = \"user_api\"`?")],
    );
    check("key = 1", &[("1", &format!("`key` takes a string literal, not an integer; {help}"))]);
}

#[test]
fn algorithms_suggest_the_nearest_name() {
    for (found, meant) in [
        ("token_buket", "; did you mean `algorithm = \"token_bucket\"`?"),
        ("TokenBucket", "; did you mean `algorithm = \"token_bucket\"`?"),
        ("fixed", "; did you mean `algorithm = \"fixed_window\"`?"),
        ("sliding_log", "; did you mean `algorithm = \"sliding_window_log\"`?"),
        ("sliding-window-counter", "; did you mean `algorithm = \"sliding_window_counter\"`?"),
        (
            "sliding_window",
            "; did you mean \"sliding_window_counter\" (small state), or \"sliding_window_log\" (exact)?",
        ),
        (
            "sliding_windw",
            "; did you mean \"sliding_window_counter\" (small state), or \"sliding_window_log\" (exact)?",
        ),
        ("leaky_bucket", "; the same limit is \"token_bucket\", which paces calls with `burst = 1`"),
        ("gcra", "; the same limit is \"token_bucket\", which paces calls with `burst = 1`"),
        ("nonsense", ""),
        ("", ""),
    ] {
        let literal = format!("{found:?}");
        let message = format!("unknown algorithm {found:?}{meant}{}", *ALGORITHMS);
        check(&format!("algorithm = {literal}"), &[(&literal, &message)]);
    }
    let unquoted =
        format!("`algorithm` takes a string; did you mean `algorithm = \"token_bucket\"`?{}", *ALGORITHMS);
    check("algorithm = token_bucket", &[("token_bucket", &unquoted)]);
    check("algorithm = Algorithm::TokenBucket", &[("Algorithm::TokenBucket", &unquoted)]);
    check("algorithm = 1", &[("1", &format!("`algorithm` takes a string, not an integer{}", *ALGORITHMS))]);
}

#[test]
fn facades_are_absolute_paths() {
    check(
        "crate = facade",
        &[(
            "facade",
            "`crate` takes an absolute path, found `facade`; did you mean `crate = ::facade`, \
             or `crate = crate::facade`?",
        )],
    );
    check(
        "crate = super::facade",
        &[(
            "super::facade",
            "`crate` takes an absolute path, found `super::facade`; write it from the root of this \
             crate, such as `crate = crate::facade`",
        )],
    );
    check(
        "crate = \"ratelimit_actix\"",
        &[(
            "\"ratelimit_actix\"",
            "`crate` takes a path without quotes; did you mean `crate = ::ratelimit_actix`?",
        )],
    );
    check(
        "crate = \"::\"",
        &[("\"::\"", "`crate` takes a path, not a string; write for example `crate = ::ratelimit_actix`")],
    );
    check(
        "crate = ::facade::<T>",
        &[(
            "::facade::<T>",
            "`crate` takes the path of a crate or module, without types; write for example `crate = ::ratelimit_actix`",
        )],
    );
    check(
        "crate = 1",
        &[("1", "`crate` takes a path, not an integer; write for example `crate = ::ratelimit_actix`")],
    );
}

#[test]
fn unknown_arguments_suggest_the_nearest_name() {
    for (word, value, meant) in [
        ("windw", "\"60s\"", "; did you mean `window = \"60s\"`?"),
        ("maxRequests", "10", "; did you mean `max = 10`?"),
        ("max_requests", "10", "; did you mean `max = 10`?"),
        ("limit", "10", "; did you mean `max = 10`?"),
        ("requests", "LIMIT", "; did you mean `max`?"),
        ("windowSeconds", "60", "; did you mean `window = \"60s\"`?"),
        ("window_seconds", "60", "; did you mean `window = \"60s\"`?"),
        ("per", "\"1m\"", "; did you mean `window = \"1m\"`?"),
        ("period", "1", "; did you mean `window = \"1s\"`?"),
        ("duration", "1", "; did you mean `window = \"1s\"`?"),
        ("interval", "1", "; did you mean `window = \"1s\"`?"),
        ("id", "\"a\"", "; did you mean `key = \"a\"`?"),
        ("strategy", "\"gcra\"", "; did you mean `algorithm = \"gcra\"`?"),
        ("weight", "2", "; did you mean `cost = 2`?"),
        ("tokens", "2", "; did you mean `cost = 2`?"),
        ("subWindows", "6", "; did you mean `sub_windows = 6`?"),
        ("capacity", "20", "; did you mean `burst = 20`?"),
        ("user", "caller", "; did you mean `by`?"),
        ("client", "caller", "; did you mean `by`?"),
        ("key_fn", "caller", "; did you mean `by`?"),
        ("MAX", "1", "; did you mean `max = 1`?"),
        ("r#max", "1", "; did you mean `max = 1`?"),
        ("colour", "1", ""),
        ("onMissing", "\"skip\"", "; did you mean `on_missing = \"skip\"`?"),
        ("countIf", "\"failures\"", "; did you mean `count = \"failures\"`?"),
        ("unless", "f", "; did you mean `skip`?"),
        ("direct", "f", "; did you mean `inner`?"),
        ("blockDuration", "600", "; did you mean `block = \"600s\"`?"),
        ("ban_for", "\"10m\"", "; did you mean `block = \"10m\"`?"),
        ("shadow", "true", "; did you mean `mode = \"shadow\"`?"),
        ("dry_run", "false", "; did you mean `mode = \"enforce\"`?"),
        ("mod", "\"shadow\"", "; did you mean `mode = \"shadow\"`?"),
        ("rule", "SEARCH", "; did you mean `policy`?"),
    ] {
        let message = format!("unknown argument `{word}`{meant}{ARGUMENTS}");
        check(&format!("{word} = {value}, cost = 1"), &[(word, &message)]);
    }
    check("colour", &[("colour", &format!("unknown argument `colour`{ARGUMENTS}"))]);
}

#[test]
fn arguments_have_the_form_name_and_value() {
    check(
        "max = 1, window = \"1s\", max = 2",
        &[("max", "argument `max` is given twice; remove one of them"), ("max", "`max` is first given here")],
    );
    check("max", &[("max", "`max` needs a value: write `max = 10`")]);
    check("max =", &[("max =", "`max` needs a value: write `max = 10`")]);
    check(
        "by, window =, max = 1",
        &[
            ("by", "`by` needs a value: write `by = ip`"),
            ("window =", "`window` needs a value: write `window = \"60s\"`"),
        ],
    );
    check("max(10)", &[("(10)", "expected `=` after `max`: write `max = 10`")]);
    check("max: 10, cost = 1", &[(":", "expected `=` after `max`: write `max = 10`")]);
    check("max == 10", &[("=", "expected `=` after `max`: write `max = 10`")]);
    check("max = 10 window = \"60s\"", &[("window", "missing comma: write `, window =`")]);
    check("max = 10 20, key = \"a\"", &[("20", "expected a comma between arguments, found `20`")]);
    check(
        "max = 10,, cost = 1",
        &[(",", "expected an argument before this comma, such as `max = 10`; remove the comma")],
    );
    check("10, \"60s\"", &[("10, \"60s\"", "arguments have names: write `max = 10, window = \"60s\"`")]);
    check("\"user-api\"", &[("\"user-api\"", "arguments have names: write `key = \"user-api\"`")]);
    check("10, window = \"60s\"", &[("10", "arguments have names: write `max = 10`")]);
    check("f(1)", &[("f(1)", "arguments have names: write `max = 10, window = \"60s\"`")]);
    check(
        "max = @, cost = 0",
        &[
            ("@", "the value of `max` cannot be read, expected an expression: write for example `max = 10`"),
            ("0", "`cost` must be from 1 to 1000000000000, found 0; write for example `cost = 5`"),
        ],
    );
}

#[test]
fn rules_between_arguments_are_checked() {
    check(
        "algorithm = \"fixed_window\", sub_windows = 6",
        &[(
            "sub_windows",
            "`sub_windows` is only for `algorithm = \"sliding_window_counter\"`, found \"fixed_window\"; \
             remove `sub_windows` or change the algorithm",
        )],
    );
    check(
        "burst = 6",
        &[(
            "burst",
            "`burst` is only for `algorithm = \"token_bucket\"`, found \"sliding_window_counter\"; \
             remove `burst` or change the algorithm",
        )],
    );
    check(
        "sub_windows = 7, window = \"1s\"",
        &[(
            "7",
            "a window of 1000000 microseconds cannot be divided into 7 equal parts; \
             write `sub_windows = 5` or `sub_windows = 8`",
        )],
    );
    check(
        "cost = 11, max = 10",
        &[(
            "11",
            "`cost` must be at most `max`, which is 10, found 11: no call could ever pass; \
             write `cost = 10` or raise `max`",
        )],
    );
    check(
        "cost = 101",
        &[(
            "101",
            "`cost` must be at most `max`, which is 100, found 101: no call could ever pass; \
             write `cost = 100` or raise `max`",
        )],
    );
    check(
        "algorithm = \"token_bucket\", max = 10, burst = 5, cost = 6",
        &[(
            "6",
            "`cost` must be at most `burst`, which is 5, found 6: no call could ever pass; \
             write `cost = 5` or raise `burst`",
        )],
    );
    check("algorithm = \"token_bucket\", max = 10, burst = 50, cost = 20", &[]);
    check("max = MAX, cost = 500", &[]);
    check("algorithm = \"token_bucket\", burst = BURST, cost = 500", &[]);
    check(
        "algorithm = \"token_bucket\", max = 1, window = \"1d\", burst = 367",
        &[(
            "367",
            "a burst of 367 takes more than 366 days to refill at 1 per window; write at most `burst = 366`",
        )],
    );
    check("algorithm = \"token_bucket\", max = 1, window = \"1d\", burst = 366", &[]);
}

#[test]
fn blocks_are_times_as_windows_are() {
    let example = "write for example `block = \"10m\"`";
    for (value, message) in [
        ("600", "`block` takes a string, not an integer; did you mean `block = \"600s\"`?".to_owned()),
        ("0", "`block` takes a string, not an integer; did you mean `block = \"10m\"`?".to_owned()),
        ("\"10min\"", "unknown unit `min` in \"10min\"; did you mean `block = \"10m\"`?".to_owned()),
        ("\"600\"", "`block` needs a unit, found \"600\"; did you mean `block = \"600s\"`?".to_owned()),
        ("\"400d\"", "`block` must be at most 366d, found \"400d\": expected whole numbers with units `d`, `h`, `m`, `s` or \
                      `ms`, such as `block = \"10m\"`".to_owned()),
        ("BLOCK", format!("`block` takes a string literal, not a path; {example}")),
    ] {
        check(&format!("block = {value}"), &[(value, &message)]);
    }
}

#[test]
fn a_block_is_at_least_the_window_and_the_time_to_refill() {
    let window = "`block` must be at least the window, which is";
    check(
        "block = \"30s\"",
        &[("\"30s\"", &format!("{window} 1m by default, found 30s; write for example `block = \"1m\"`"))],
    );
    check(
        "window = \"1h30m\", block = \"60m\"",
        &[("\"60m\"", &format!("{window} 1h30m, found 1h; write for example `block = \"1h30m\"`"))],
    );
    check("block = \"60s\"", &[]);
    check("max = MAX, window = \"1h\", block = \"1h\"", &[]);
    let bucket = "algorithm = \"token_bucket\", window = \"1s\", max = 3";
    check(
        &format!("{bucket}, burst = 7, block = \"2s\""),
        &[(
            "\"2s\"",
            "`block` must be at least the time to refill a full bucket, which is 2s334ms, found 2s; \
             write for example `block = \"2s334ms\"`",
        )],
    );
    check(&format!("{bucket}, burst = 7, block = \"2s334ms\""), &[]);
    check(&format!("{bucket}, burst = 1, block = \"1s\""), &[]);
    // The compiler checks these.
    check(&format!("{bucket}, burst = BURST, block = \"1s\""), &[]);
    check("algorithm = \"token_bucket\", max = |n: Path<u64>| *n, burst = 1000, block = \"60s\"", &[]);
}

#[test]
fn a_wrong_argument_is_not_replaced_by_its_default() {
    check(
        "max = 0, cost = 500",
        &[("0", "`max` must be from 1 to 1000000000000, found 0; write for example `max = 10`")],
    );
    check(
        "algorithm = 1, burst = 500, sub_windows = 7",
        &[("1", &format!("`algorithm` takes a string, not an integer{}", *ALGORITHMS)), SEVEN],
    );
}

const SEVEN: (&str, &str) = (
    "7",
    "a window of 60000000 microseconds cannot be divided into 7 equal parts; \
     write `sub_windows = 6` or `sub_windows = 8`",
);
