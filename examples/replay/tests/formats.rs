//! Lines of logs, and what is read from them.

use ratelimit_core::Timestamp;

use crate::caller::By;
use crate::line::Request;

/// Micros, method, path and status of a line.
fn read(line: &str) -> Option<(u64, String, String, Option<u16>)> {
    let request = Request::parse(line.as_bytes()).ok()?;
    Some((request.at.as_micros(), request.method.to_string(), request.path.to_string(), request.status))
}

fn caller(line: &str, by: &str) -> Option<String> {
    let request = Request::parse(line.as_bytes()).unwrap();
    By::parse(by).unwrap().caller(&request).map(|caller| caller.to_string())
}

const COMMON: &str = "192.0.2.1 - alice [10/Oct/2025:13:55:36 +0200] \"GET /a/b?q=%22 HTTP/1.1\" 200 512";
const COMBINED: &str = "2001:db8::1 - - [10/Oct/2025:11:55:36 +0000] \"POST /login HTTP/2.0\" 401 - \"https://a.example/\" \"Agent \\\"x\\\" 1.0\"";
const NGINX: &str = "{\"time_local\": \"10/Oct/2025:13:55:36 +0200\", \"remote_addr\": \"192.0.2.1\", \"request\": \"GET /a?b HTTP/1.1\", \
                     \"status\": \"200\", \"http_x_api_key\": \"k1\"}";
const CADDY: &str = "{\"ts\": 1760097336.25, \"request\": {\"remote_ip\": \"192.0.2.1\", \"method\": \"GET\", \"uri\": \"/a?b\", \
                     \"headers\": {\"X-Api-Key\": [\"k1\"]}}, \"status\": 200}";
const PLAIN: &str = "{\"timestamp\": \"2025-10-10T11:55:36.250Z\", \"ip\": \"192.0.2.1\", \"method\": \"GET\", \"path\": \"/a\", \
                     \"account\": 7, \"x-api-key\": \"k1\"}";

/// 2025-10-10 11:55:36 UTC.
const AT: u64 = 1_760_097_336_000_000;

#[test]
fn every_format_is_read() {
    let expected =
        |at: u64, method: &str, path: &str, status| Some((at, method.to_owned(), path.to_owned(), status));
    assert_eq!(read(COMMON), expected(AT, "GET", "/a/b", Some(200)));
    assert_eq!(read(COMBINED), expected(AT, "POST", "/login", Some(401)));
    assert_eq!(read(NGINX), expected(AT, "GET", "/a", Some(200)));
    assert_eq!(read(CADDY), expected(AT + 250_000, "GET", "/a", Some(200)));
    assert_eq!(read(PLAIN), expected(AT + 250_000, "GET", "/a", None));
}

#[test]
fn callers_are_found_where_logs_have_them() {
    for (line, by, expected) in [
        (COMMON, "ip", Some("192.0.2.1")),
        (COMMON, "field:user", Some("alice")),
        (COMMON, "header:user-agent", None),
        (COMBINED, "ip", Some("2001:db8::/64")),
        (COMBINED, "field:user", None),
        (COMBINED, "header:User-Agent", Some("Agent \\\"x\\\" 1.0")),
        (COMBINED, "header:referer", Some("https://a.example/")),
        (NGINX, "ip", Some("192.0.2.1")),
        (NGINX, "header:x-api-key", Some("k1")),
        (CADDY, "ip", Some("192.0.2.1")),
        (CADDY, "header:x-api-key", Some("k1")),
        (CADDY, "field:request.remote_ip", Some("192.0.2.1")),
        (PLAIN, "header:x-api-key", Some("k1")),
        (PLAIN, "field:account", Some("7")),
        (PLAIN, "field:nothing", None),
        (PLAIN, "everyone", Some("everyone")),
    ] {
        assert_eq!(caller(line, by).as_deref(), expected, "{by} of {line}");
    }
}

#[test]
fn times_are_read_in_every_form() {
    let of = |time: &str| {
        Request::parse(PLAIN.replace("\"2025-10-10T11:55:36.250Z\"", time).as_bytes())
            .map(|request| request.at)
    };
    for (time, micros) in [
        ("\"2025-10-10T13:55:36+02:00\"", AT),
        ("\"2025-10-10T11:55:36\"", AT),
        ("\"2025-10-10 11:55:36.5\"", AT + 500_000),
        ("\"1760097336.125\"", AT + 125_000),
        ("1760097336", AT),
        ("1760097336.000001", AT + 1),
        ("\"1760097336.0000019\"", AT + 1),
        ("1760097336250", AT + 250_000),
        ("1760097336250001", AT + 250_001),
        ("1760097336250001999", AT + 250_001),
    ] {
        assert_eq!(of(time), Ok(Timestamp::from_micros(micros)), "{time}");
    }
    for time in [
        "\"\"",
        "\"yesterday\"",
        "-5",
        "null",
        "\"1960-01-01T00:00:00Z\"",
        "1e300",
        "\"2025-13-10T11:55:36Z\"",
    ] {
        assert!(of(time).is_err(), "{time}");
    }
    let last = 7_289_654_399_000_000;
    for (time, micros) in [
        ("\"2200-12-31T23:59:59Z\"", last),
        ("\"31/Dec/2200:23:59:59 +0000\"", last),
        ("7289654399.999999", last + 999_999),
    ] {
        assert_eq!(of(time), Ok(Timestamp::from_micros(micros)), "{time}");
    }
    for time in [
        "\"2201-01-01T00:00:00Z\"",
        "\"2201-01-01 00:00:00\"",
        "\"31/Dec/9999:23:59:59 +0000\"",
        "\"7289654400\"",
        "7289654400",
        "7289654400000",
        "7289654400000000",
        "7289654400000000000",
        "\"1960-01-01T00:00:00Z\"",
    ] {
        let error = of(time).unwrap_err().to_string();
        assert_eq!(error, "expected a time from 1970 to 2200", "{time}");
    }
}

#[test]
fn no_line_panics() {
    for line in [COMMON, COMBINED, NGINX, CADDY, PLAIN] {
        let bytes = line.as_bytes();
        for place in 0..bytes.len() {
            let _ = Request::parse(&bytes[..place]);
            for byte in [0, b' ', b'"', b'\\', b'[', b'{', b'9', 0xff] {
                let mut changed = bytes.to_vec();
                changed[place] = byte;
                if let Ok(request) = Request::parse(&changed) {
                    let _ = (request.client(), request.header("user-agent"), request.known());
                }
            }
        }
    }
}
