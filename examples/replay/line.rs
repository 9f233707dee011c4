//! A line of a log as a request: the common or the combined log format, or a JSON object with the names that
//! common servers use.

use std::collections::HashMap;
use std::sync::LazyLock;

use jiff::civil::DateTime;
use jiff::{SignedDuration, Unit, tz::TimeZone};
use ratelimit_core::Timestamp;
use regex::Regex;
use serde_json::Value;

/// The common format, and the combined one, which ends with two header fields more.
#[allow(clippy::expect_used, reason = "a constant; every test of a line compiles it")]
static CLF: LazyLock<Regex> = LazyLock::new(|| {
    let quoted = r#""((?:[^"\\]|\\.)*)""#;
    let common = r#"^(\S+) \S+ (.*?) \[([^\]]+)\] "(\S+) (\S+) HTTP/[^"]*" (\d+) \S+"#;
    Regex::new(&format!("{common}(?: {quoted} {quoted})?")).expect("a regular expression")
});
// Names in JSON, in the order in which they are tried; a dot leads into an object.
const TIMES: [&str; 7] = ["time", "timestamp", "ts", "@timestamp", "time_iso8601", "time_local", "msec"];
pub(crate) const CLIENTS: [&str; 7] =
    ["ip", "client_ip", "remote_addr", "remote_ip", "client", "request.client_ip", "request.remote_ip"];
const METHODS: [&str; 4] = ["method", "request_method", "request.method", "http.method"];
const PATHS: [&str; 7] = ["path", "uri", "request_uri", "url", "request.uri", "request.path", "http.path"];
const STATUSES: [&str; 4] = ["status", "status_code", "response.status", "http.status_code"];

/// One request of a log.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) at: Timestamp,
    pub(crate) method: String,
    /// Without the query.
    pub(crate) path: String,
    /// Of the answer; `None` if the log does not have it.
    pub(crate) status: Option<u16>,
    pub(crate) fields: HashMap<String, String>,
}

impl Request {
    /// An error is the end of the sentence "expected ..".
    pub(crate) fn parse(line: &str) -> Result<Self, &'static str> {
        let mut fields = HashMap::new();
        if line.starts_with('{') {
            add("", serde_json::from_str(line).map_err(|_| "a whole JSON object")?, &mut fields);
        } else {
            let parts = CLF.captures(line).ok_or("a line such as `192.0.2.1 - - [10/Oct/2025:13:55:36 +0200] \"GET / HTTP/1.1\" 200 512`, or a JSON object")?;
            let headers = ["header:referer", "header:user-agent"];
            let names = ["ip", "user", "time", "method", "path", "status"].into_iter().chain(headers);
            for (name, part) in names.zip(parts.iter().skip(1)) {
                add(name, part.map(|part| part.as_str()).into(), &mut fields);
            }
        }
        let first = |names| first(&fields, names);
        let at = time(first(&TIMES).ok_or("a field `time`")?)?;
        // nginx may write the whole request line as one field.
        let mut words = first(&["request"]).unwrap_or_default().split_whitespace();
        let (method, target) = (words.next(), words.next());
        let method = first(&METHODS).or(method).ok_or("a field `method`")?.to_owned();
        let target = first(&PATHS).or(target).ok_or("a field `path`")?;
        let path = target.split(['?', '#']).next().unwrap_or_default().to_owned();
        let status = first(&STATUSES).and_then(|status| status.parse().ok());
        Ok(Self { at, method, path, status, fields })
    }
}

/// The value of the first of these names that has one.
pub(crate) fn first<'f>(fields: &'f HashMap<String, String>, names: &[&str]) -> Option<&'f str> {
    names.iter().find_map(|name| fields.get(*name)).map(String::as_str)
}

/// Adds a value under its name, and those inside of it under longer names, in lower case. `headers` and
/// `http_` name header fields.
fn add(name: &str, value: Value, fields: &mut HashMap<String, String>) {
    match value {
        Value::Object(inner) => inner.into_iter().for_each(|(key, value)| {
            let key = key.to_lowercase();
            let name = match key.strip_prefix("http_") {
                _ if name.ends_with("headers") => format!("header:{key}"),
                Some(header) => format!("header:{}", header.replace('_', "-")),
                None if name.is_empty() => key,
                None => format!("{name}.{key}"),
            };
            add(&name, value, fields);
        }),
        Value::Array(values) => values.into_iter().take(1).for_each(|value| add(name, value, fields)),
        Value::String(text) if !text.is_empty() && text != "-" => _ = fields.insert(name.to_owned(), text),
        Value::Number(number) => _ = fields.insert(name.to_owned(), number.to_string()),
        _ => {}
    }
}

/// A time in any form that logs have: a date, without an offset in UTC, or a number since the Unix epoch,
/// whose unit its size shows.
fn time(text: &str) -> Result<Timestamp, &'static str> {
    let of_number = || {
        let mut seconds: f64 = text.parse().ok()?;
        for _unit in ["nanoseconds", "microseconds", "milliseconds"] {
            seconds /= if seconds >= 1e11 { 1e3 } else { 1.0 };
        }
        let at = SignedDuration::try_from_secs_f64(seconds).and_then(jiff::Timestamp::from_duration);
        at.and_then(|at| at.round(Unit::Microsecond)).ok()
    };
    let in_utc = || Some(text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp());
    let at = text.parse().ok().or_else(in_utc).or_else(of_number);
    let at = at.or_else(|| jiff::Timestamp::strptime("%d/%b/%Y:%H:%M:%S %z", text).ok());
    let at = at.ok_or("a time such as 10/Oct/2025:13:55:36 +0200, 2025-10-10T13:55:36Z or 1760104536.25")?;
    // A later one is a mistake of the log, and all that follows would count at it.
    let micros = u64::try_from(at.as_microsecond()).ok().filter(|micros| *micros < 7_289_654_400_000_000);
    micros.map(Timestamp::from_micros).ok_or("a time from 1970 to 2200")
}
