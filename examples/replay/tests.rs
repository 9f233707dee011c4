//! A replay decides as a service does, reads both formats, and prints what `docs/numbers.md` shows.
//!
//! `UPDATE_DOCS=1 cargo test -p examples --features replay --example replay` writes transcripts and pictures
//! of the page anew.

use std::fs;
use std::path::Path;
use std::time::Duration;

use actix_web::http::header::RETRY_AFTER;
use actix_web::test::{TestRequest, call_service, init_service};
use actix_web::{App, HttpRequest, HttpResponse, get, post, web};
use ratelimit_actix::{MemoryStore, RateLimiter, rate_limit};
use ratelimit_core::clock::FakeClock;
use ratelimit_core::store::toolkit::{Operation, State};
use ratelimit_core::{Algorithm, Policy, Timestamp};

use crate::census::Census;
use crate::limits;
use crate::line::Request;
use crate::replay::Replay;

/// The limits of the service below.
const LIMITS: &str = r#"
[limit]
burst = { path = "/items/{id}", max = 1, window = "45s", algorithm = "token_bucket", burst = 2 }
steady = { path = "/items/{id}", max = 4, window = "5m", algorithm = "sliding_window_log" }
login = { path = "/login", methods = ["post"], count = "failures", max = 2, window = "30s", block = "45s" }
"#;

#[rate_limit(max = 1, window = "45s", key = "burst", algorithm = "token_bucket", burst = 2)]
#[rate_limit(max = 4, window = "5m", key = "steady", algorithm = "sliding_window_log")]
#[get("/items/{id}")]
async fn items() -> &'static str {
    "item"
}

#[rate_limit(max = 2, window = "30s", key = "login", count = "failures", block = "45s")]
#[post("/login")]
async fn login(req: HttpRequest) -> HttpResponse {
    let is_wrong = req.headers().get("x-status").is_some_and(|status| status == "401");
    if is_wrong { HttpResponse::Unauthorized().finish() } else { HttpResponse::Ok().finish() }
}

fn ran(arguments: &str) -> String {
    crate::run(arguments.split(' ').map(str::to_owned)).unwrap()
}

/// The requests of an hour of the made-up day, once as a log and once sent, with the same clock.
#[actix_web::test]
async fn a_replay_and_a_limited_service_agree_about_every_request() {
    let clock = FakeClock::default();
    let limiter = web::Data::new(RateLimiter::new(MemoryStore::new().with_clock(clock.clone())));
    let service = init_service(App::new().app_data(limiter).service(items).service(login)).await;
    let mut replay = Replay::new(limits::parse(LIMITS).unwrap());
    for line in
        ran("--made-up-day").lines().filter(|line| line.contains("2025:14:") && !line.contains("/search"))
    {
        let request = Request::parse(line).unwrap();
        clock.set(request.at);
        let peer = line.split(' ').next().unwrap().parse::<std::net::IpAddr>().unwrap();
        let sent = TestRequest::with_uri(&request.path).method(request.method.parse().unwrap());
        let sent = sent.insert_header(("x-status", request.status.unwrap().to_string()));
        let sent = sent.peer_addr((peer, 443).into()).to_request();
        let response = call_service(&service, sent).await;
        let wait = response.headers().get(RETRY_AFTER).map(|wait| wait.to_str().unwrap().parse().unwrap());
        let outcome = replay.request(&request).unwrap();
        // As in `Retry-After`: rounded up.
        let seconds = |wait: Duration| u64::try_from(wait.as_micros().div_ceil(1_000_000)).unwrap();
        assert_eq!(outcome.retry_after().map(seconds), wait, "{line}");
    }
    for ((policy, _), tally) in replay.limits.iter().zip(&replay.tallies) {
        assert!(tally.denied > 10 && tally.denied < tally.requests, "{}: {}", policy.key(), tally.denied);
    }
}

#[test]
fn every_format_is_read() {
    let common = "192.0.2.1 - alice [10/Oct/2025:13:55:36 +0200] \"GET /a?q=%22 HTTP/1.1\" 200 512";
    let combined = &format!("{common} \"-\" \"Agent \\\"x\\\" 1.0\"");
    let nginx = "{\"time_local\": \"10/Oct/2025:13:55:36 +0200\", \"remote_addr\": \"192.0.2.1\", \"request\": \"GET /a?b HTTP/1.1\", \
                 \"status\": \"200\", \"http_user_agent\": \"k\"}";
    let caddy = "{\"ts\": 1760097336.0, \"status\": 200, \"request\": {\"client_ip\": \"192.0.2.1\", \"method\": \"GET\", \
                 \"uri\": \"/a?b\", \"headers\": {\"User-Agent\": [\"k\"]}}}";
    let plain = "{\"time\": \"2025-10-10T11:55:36Z\", \"ip\": \"2001:db8::1:2:3:4\", \"method\": \"GET\", \"path\": \"/a\", \
                 \"status\": 200, \"user\": 7, \"user-agent\": \"k\"}";
    let at = Timestamp::from_micros(1_760_097_336_000_000);
    for (line, user, agent) in [
        (common, Some("alice"), None),
        (combined, Some("alice"), Some("Agent \\\"x\\\" 1.0")),
        (nginx, None, Some("k")),
        (caddy, None, Some("k")),
        (plain, Some("7"), Some("k")),
    ] {
        let read = Request::parse(line).unwrap();
        assert_eq!(
            (read.at, &*read.method, &*read.path, read.status),
            (at, "GET", "/a", Some(200)),
            "{line}"
        );
        let ip = Some(if line == plain { "2001:db8::/64" } else { "192.0.2.1" });
        for (by, expected) in [("ip", ip), ("field:user", user), ("header:User-Agent", agent)] {
            let limit = &limits::parse(&format!("[limit.a]\nby = '{by}'")).unwrap()[0].1;
            assert_eq!(limit.caller(&read).as_deref(), expected, "{by} of {line}");
        }
    }
    for time in ["2025-10-10 11:55:36", "1760097336000", "1760097336000000", "2025-10-10T13:55:36+02:00"] {
        let read = Request::parse(&plain.replace("2025-10-10T11:55:36Z", time)).unwrap();
        assert_eq!(read.at, at, "{time}");
    }
    for time in ["2201-01-01T00:00:00Z", "-5", "yesterday", "1e300", "1960-01-01T00:00:00Z"] {
        assert!(Request::parse(&plain.replace("2025-10-10T11:55:36Z", time)).is_err(), "{time}");
    }
}

/// The smallest number under which none of these requests is denied, found by trying.
#[test]
fn a_peak_is_the_smallest_number_that_denies_nothing() {
    let second = |number: u64| 1_763_596_800 + number / 60 * 400 + (number % 60).pow(2) / 12;
    let instants = || (0..120).map(|number| Timestamp::from_micros(second(number) * 1_000_000));
    for algorithm in Algorithm::ALL {
        let policy = |number| {
            let builder = Policy::builder("k").algorithm(*algorithm).window(Duration::from_secs(60));
            let is_bucket = *algorithm == Algorithm::TokenBucket;
            if is_bucket { builder.max(7).burst(number).build() } else { builder.max(number).build() }
        };
        let mut census = Census::new(&policy(7), Duration::from_secs(60)).unwrap();
        instants().for_each(|at| census.add(1, at, true));
        let denies_nothing = |number: &u64| {
            let (policy, mut state) = (policy(*number), State::new(&policy(*number)));
            instants().all(|at| state.decide(&policy, 1, at, Operation::Check).is_allowed())
        };
        assert_eq!(census.needed([1_000])[0], (1..1_000).find(denies_nothing).unwrap(), "{algorithm}");
    }
}

#[test]
fn a_mistake_is_told() {
    for (limits, expected) in [
        ("[limit", "TOML parse error at line 1"),
        ("[limits.a]", "expected a table `limit` with 1 to "),
        ("[limit.a]\nmax = 0", "limit `a`: max must be from 1 to 1000000000000"),
        ("[limit.a]\nmaxx = 5", "limit `a`: unknown field `maxx`"),
        ("[limit.a]\nkey = 'b'", "limit `a`: expected no `key`"),
        ("[limit.a]\nby = 'address'", "limit `a`: expected `by` as one of "),
        ("[limit.a]\npath = 'login'", "limit `a`: expected `path` such as "),
        ("[limit.'a/b']", "limit `a/b`: expected a name of "),
    ] {
        let error = limits::parse(limits).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{limits}: {error}");
    }
    let mut replay = Replay::new(limits::parse("[limit.a]").unwrap());
    replay.read("a.log", &b"\x1b[31m\n"[..]).unwrap();
    let is_shown = replay.shown[0].starts_with("line 1 of a.log: expected a line such as ");
    assert!(is_shown && replay.shown[0].ends_with("found `\\u{1b}[31m`"), "{:?}", replay.shown);
}

/// Compares a file with its text as it has to be, or writes it.
fn is_current(path: &Path, text: &str) {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path, text).unwrap();
    }
    let there = fs::read_to_string(path).unwrap();
    assert!(there == text, "{} is out of date, see the head of this file", path.display());
}

#[test]
fn the_page_shows_what_the_commands_print_and_draw() {
    let folder = tempfile::tempdir().unwrap();
    let (there, docs) = (format!("{}/", folder.path().display()), Path::new("../docs"));
    fs::write(folder.path().join("day.log"), ran("--made-up-day")).unwrap();
    let printed = ran(&format!("--pictures {there} replay/limits.toml {there}day.log")).replace(&there, "");
    let page = fs::read_to_string(docs.join("numbers.md")).unwrap();
    let command = " -- examples/replay/limits.toml day.log\n";
    let (before, old) = page.split_once(command).unwrap();
    let after = &old[old.find("```\n").unwrap()..];
    is_current(&docs.join("numbers.md"), &format!("{before}{command}{printed}{after}"));
    for limit in ["items", "login"] {
        let drawn = fs::read_to_string(folder.path().join(format!("replay-{limit}.svg"))).unwrap();
        is_current(&docs.join(format!("numbers/{limit}.svg")), &drawn);
    }
}
