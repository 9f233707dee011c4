//! Logs and files that are not as they should be.

use std::fs;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{line, ran, replayed};

const ONE: &str = "[limit.all]\nmax = 2\nwindow = \"60s\"\n";

fn error(limits: &str, log: &str) -> String {
    replayed(limits, log, &[]).1.unwrap()
}

/// A minute of requests, one each second.
fn minute(hour: u32) -> String {
    (0..60).map(|second| line(&format!("26/Oct/2025:{hour:02}:30:{second:02} +0000"))).collect()
}

#[test]
fn an_empty_log_is_an_error() {
    for log in ["", "\n \r\n"] {
        assert_eq!(error(ONE, log), "the log is empty: there is nothing to replay");
    }
}

#[test]
fn a_log_of_another_format_is_an_error_with_its_first_line() {
    let expected = "none of 2 lines can be read: line 1 is `Oct 10 host sshd: accepted`; expected a line such as \
                    `192.0.2.1 - - [10/Oct/2025:13:55:36 +0200] \"GET / HTTP/1.1\" 200 512`, or a JSON object";
    assert_eq!(error(ONE, "Oct 10 host sshd: accepted\nOct 10 host sshd: closed\n"), expected);
    // The rest of a long one is not read.
    let long = "Oct 10 host sshd: accepted\n".repeat(20_000);
    assert!(error(ONE, &long).starts_with("none of 10000 lines can be read: line 1 is "));
}

#[test]
fn unreadable_lines_are_counted_and_the_first_three_are_shown() {
    let broken = "\u{1b}[31m\n{\"time\": 1}\n192.0.2.1 - - [never] \"GET / HTTP/1.1\" 200 1\n\
                  192.0.2.1 - - [10/Oct/2025:13:55:36 +0200] \"\\x16\\x03\" 400 0\n";
    let log = format!("{}{broken}{}", line("10/Oct/2025:13:55:36 +0200"), line("10/Oct/2025:13:55:37 +0200"));
    let (printed, error) = replayed(ONE, log, &[]);
    assert_eq!(error, None);
    let expected = "2 requests from 2025-10-10 11:55:36 to 2025-10-10 11:55:37 UTC\n\
                    lines that are no requests: 4\n  \
                    line 2: expected a line such as `192.0.2.1 - - [10/Oct/2025:13:55:36 +0200] \"GET / HTTP/1.1\" 200 512`, or a \
                    JSON object; found `\\u{1b}[31m`\n  \
                    line 3: expected a field `method`; found `{\\\"time\\\": 1}`\n  \
                    line 4: expected a time such as 10/Oct/2025:13:55:36 +0200, 2025-10-10T13:55:36Z or 1760104536.25; found \
                    `192.0.2.1 - - [never] \\\"GET / HTTP/1.1\\\" 200 1`\n  ..\n";
    assert!(printed.starts_with(expected), "{printed}");
}

#[test]
fn of_several_logs_the_place_of_a_line_has_the_name() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("limits.toml"), ONE).unwrap();
    fs::write(folder.path().join("a.log"), line("10/Oct/2025:13:55:36 +0200")).unwrap();
    fs::write(folder.path().join("b.log"), line("10/Oct/2025:13:55:37 +0200") + "broken\n").unwrap();
    let arguments = ["FOLDER/limits.toml", "FOLDER/a.log", "FOLDER/b.log", "--pictures", "FOLDER"];
    let (printed, error) = ran(&folder, &arguments, "");
    assert_eq!(error, None);
    assert!(
        printed.starts_with("2 requests from ") && printed.contains("\n  line 2 of FOLDER/b.log: expected "),
        "{printed}"
    );
}

#[test]
fn a_limit_by_something_that_the_log_lacks_is_an_error() {
    let by = |by: &str| format!("[limit.all]\nby = \"{by}\"\n");
    for caller in ["header:x-api-key", "header:user-agent", "field:account", "field:user"] {
        let expected =
            format!("limit `all` counts by {caller}, but none of the 60 requests under it has that");
        assert_eq!(error(&by(caller), &minute(1)), expected);
    }
    let long = minute(1).repeat(200);
    let expected = "limit `all` counts by header:x-api-key, but none of the first 10000 requests under it has that; this log has ip, \
                    field:user";
    assert_eq!(error(&by("header:x-api-key"), &long), expected);
    let json = "{\"time\": 1760104536, \"method\": \"GET\", \"path\": \"/\", \"account\": 7}\n";
    assert_eq!(
        error(&by("ip"), json),
        "limit `all` counts by ip, but none of the 1 requests under it has that"
    );
    // A caller that is missing now and then is counted.
    let (printed, _) =
        replayed(&by("field:account"), format!("{json}{}", json.replace("account", "nobody")), &[]);
    assert!(printed.contains("1 not counted: the line does not tell the caller"), "{printed}");
}

#[test]
fn the_hour_of_summer_time_is_told_and_denies_nothing() {
    // Without offsets: 02:30 twice. Both minutes have 60 requests, and 60 pass in a minute.
    let log = format!("{}{}{}", minute(2), line("26/Oct/2025:02:59:59 +0000"), minute(2));
    let (printed, error) = replayed("[limit.all]\nmax = 60\nalgorithm = \"fixed_window\"\n", log, &[]);
    assert_eq!(error, None);
    assert!(
        printed.contains(
            "times that the clock of the log goes back: 1, by up to 30m; it goes on from the latest time\n"
        ) && printed.contains("  denied        0, 0.0 %\n"),
        "{printed}"
    );
}

#[test]
fn requests_out_of_order_are_told() {
    let log =
        ["13:55:36", "13:55:38", "13:55:37"].map(|time| line(&format!("10/Oct/2025:{time} +0200"))).concat();
    let (printed, _) = replayed(ONE, log, &[]);
    let expected = "requests out of order: 1, by up to 1s; each counts at the latest time before it\n";
    assert!(printed.contains(expected), "{printed}");
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn gzip_is_read_in_one_part_and_in_several() {
    let (plain, _) = replayed(ONE, minute(1) + &minute(2), &[]);
    assert_eq!(replayed(ONE, gzip(&(minute(1) + &minute(2))), &[]).0, plain);
    assert_eq!(replayed(ONE, [gzip(&minute(1)), gzip(&minute(2))].concat(), &[]).0, plain);
}

#[test]
fn of_a_broken_gzip_the_first_part_counts_and_the_error_is_told() {
    // Lines that do not compress well.
    let log: String = (0..20_000_u64)
        .map(|number| {
            line("10/Oct/2025:13:55:36 +0200")
                .replace("GET /", &format!("GET /{}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        })
        .collect();
    let whole = gzip(&log);
    let (printed, error) = replayed(ONE, &whole[..whole.len() / 2], &[]);
    let error = error.unwrap();
    assert!(error.starts_with("- cannot be read after its line ") && !error.contains("line 0:"), "{error}");
    assert!(printed.contains("  requests  "), "{printed}");
    let mut wrong = whole;
    wrong[2..10].fill(0xff);
    let (printed, error) = replayed(ONE, wrong, &[]);
    assert!(printed.is_empty(), "{printed}");
    assert!(error.unwrap().starts_with("- cannot be read after its line 0: "));
}

#[test]
fn a_mistake_in_the_file_of_limits_is_told_with_its_line() {
    for (limits, expected) in [
        ("", "line 1 of limits.toml: expected a table for each limit, such as [limit.login], found none"),
        ("max = 5", "line 1 of limits.toml: expected a table for each limit, such as [limit.login]"),
        ("\n[limits.a]", "line 2 of limits.toml: expected a table for each limit, such as [limit.login]"),
        ("[limit]\na = 5", "line 2 of limits.toml: expected a table for each limit, such as [limit.login]"),
        ("[limit.a]\nmax = ", "line 2 of limits.toml: expected TOML: "),
        ("[limit.a]\nmax = 0", "line 1 of limits.toml: limit `a`: max must be from 1 to 1000000000000"),
        (
            "[limit.a]\n\nmax = '5'",
            "line 3 of limits.toml: limit `a`: invalid type: string \"5\", expected a whole number for `max`",
        ),
        (
            "[limit.a]\nmax = 1\nwindow = '60'",
            "line 3 of limits.toml: limit `a`: `window` needs a unit, found \"60\"; did you mean \"60s\"?",
        ),
        (
            "[limit.a]\nburts = 2",
            "line 2 of limits.toml: limit `a`: unknown field `burts`, expected one of `key`, ",
        ),
        (
            "[limit.a]\nby = 'address'",
            "line 2 of limits.toml: `by` of limit `a`: expected one of \"ip\", \"header:NAME\"",
        ),
        ("[limit.a]\nby = 1", "line 2 of limits.toml: `by` of limit `a`: expected a string"),
        (
            "[limit.a]\ncount = 'errors'",
            "line 2 of limits.toml: `count` of limit `a`: expected one of \"all\", \"failures\", \"successes\"",
        ),
        (
            "[limit.a]\npath = 'login'",
            "line 2 of limits.toml: `path` of limit `a`: expected a path such as \"/login\"",
        ),
        (
            "[limit.a]\nmethods = 'GET'",
            "line 2 of limits.toml: `methods` of limit `a`: expected a list such as [\"GET\", \"POST\"]",
        ),
        ("[limit.'a b']\n", "line 1 of limits.toml: limit `a b`: key must be 1 to 128"),
        ("[limit.a]\nmode = 'off'", "line 2 of limits.toml: limit `a`: "),
    ] {
        let error = error(limits, "");
        assert!(error.starts_with(expected), "{limits}\n{error}");
    }
    let many = (0..65).map(|number| format!("[limit.a{number}]")).collect::<Vec<_>>().join("\n");
    assert_eq!(error(&many, ""), "line 1 of limits.toml: expected at most 64 limits, found 65");
    assert_eq!(replayed("[limit.a]\nmode = 'shadow'", minute(1), &[]).1, None);
}

#[test]
fn two_limits_share_neither_a_name_nor_counts() {
    for (limits, expected) in [
        (
            "[limit.a]\n[limit.b]\nmax = 7\nkey = 'a'",
            "line 4 of limits.toml: limit `b`: its key, algorithm and window are equal, so it would share the counts of limit `a`; \
             give it a `key` of its own",
        ),
        (
            "[limit.b]\nkey = 'x'\nname = 'b'\n[limit.a]\nby = 'everyone'\nname = 'a'\nkey = 'x'\nmode = 'shadow'",
            "line 7 of limits.toml: limit `a`: its key, algorithm and window are equal, so it would share the counts of limit `b`; \
             give it a `key` of its own",
        ),
        (
            "[limit.a]\nname = 'x'\n[limit.b]\nmax = 7\nname = 'x'",
            "line 5 of limits.toml: limit `b`: it has the same name as limit `a`; give it a `name` of its own",
        ),
        (
            "[limit.a]\nname = 'b'\n\n[limit.b]",
            "line 4 of limits.toml: limit `b`: it has the same name as limit `a`; give it a `name` of its own",
        ),
        (
            "[limit.a]\n[limit.b]\nwindow = '1h'\nkey = 'a'",
            "line 4 of limits.toml: limit `b`: it has the same name as limit `a`; give it a `name` of its own",
        ),
    ] {
        assert_eq!(error(limits, ""), expected, "{limits}");
    }
    let apart = "[limit.a]\ncount = 'failures'\n[limit.b]\nwindow = '1h'\nkey = 'a'\nname = 'b'\nmax = 10\n";
    let (printed, error) = replayed(apart, minute(1), &[]);
    assert_eq!(error, None);
    let denied: Vec<&str> = printed.lines().filter(|line| line.starts_with("  denied  ")).collect();
    assert_eq!(denied, ["  denied        0, 0.0 %", "  denied        50, 83.3 %"], "{printed}");
}

#[test]
fn a_mistake_in_the_command_line_says_what_was_expected() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("limits.toml"), ONE).unwrap();
    for (arguments, expected) in [
        (&[][..], "expected a file of limits with the ending .toml first, found nothing; see --help"),
        (
            &["access.log"],
            "expected a file of limits with the ending .toml first, found `access.log`; see --help",
        ),
        (&["limits.toml"], "expected a log after the limits, or - for standard input; see --help"),
        (&["--suggest"], "expected a log after the limits, or - for standard input; see --help"),
        (&["limits.toml", "-", "-"], "standard input (-) can be read only once"),
        (&["--sugest"], "invalid option '--sugest'; --help lists the options"),
        (&["--max-callers", "many"], "cannot parse argument \"many\": invalid digit found in string"),
        (&["FOLDER/none.toml", "-"], "FOLDER/none.toml cannot be read: "),
        (&["FOLDER/limits.toml", "FOLDER/none.log"], "FOLDER/none.log cannot be read: "),
        (&["FOLDER/limits.toml", "FOLDER"], "FOLDER cannot be read: "),
    ] {
        let (printed, error) = ran(&folder, arguments, "");
        assert!(error.as_ref().is_some_and(|error| error.starts_with(expected)), "{arguments:?}: {error:?}");
        assert_eq!(printed, "");
    }
    let (help, error) = ran(&folder, &["--help"], "");
    assert!(help.contains("Usage: replay LIMITS.toml LOG...") && error.is_none(), "{help}");
}
