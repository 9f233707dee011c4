//! Every row of the argument table, over real connections, with the counts in memory and in Redis: above a
//! handler, and in middleware where a row has a method of `Limit`.

mod handlers;
#[path = "../../ratelimit-macros/src/parse/args/rows.rs"]
mod rows;
mod scopes;
mod stage;

use std::time::Duration;

use actix_web::{rt, web};
use ratelimit_actix::Algorithm;

use stage::{Stage, in_memory, in_redis};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

macro_rules! each {
    ($($(#[doc = $docs:literal])* $field:ident $name:literal: $type:ty, $of:ident, $example:literal, $code:tt $(, $why:literal)?;)*) => {
        &[$(($name, stringify!($of), $field)),*]
    };
}

/// An argument, what it is of, and what shows that it does what it should: the function of its name below.
type Row = (&'static str, &'static str, fn(&Stage));

const ROWS: &[Row] = rows::with_arguments!(each);

#[test]
fn every_row_of_a_limit_has_middleware() {
    let limits = scopes::limits();
    for (name, of, _) in ROWS {
        let prefix = format!("/{}/scope", if *name == "on_missing" { "missing" } else { name });
        let has_method = (*of == "Limit" || ["max", "anchor"].contains(name)) && *name != "policy";
        assert_eq!(limits.iter().any(|(path, _)| path.starts_with(&prefix)), has_method, "{name}");
    }
}

#[test]
fn every_argument_works_in_memory_as_the_table_describes() {
    check_rows(&in_memory());
}

#[test]
fn every_argument_works_in_redis_as_the_table_describes() {
    if let Some(stage) = in_redis() {
        check_rows(&stage);
    }
}

fn check_rows(stage: &Stage) {
    for (.., row) in ROWS {
        stage.next_day();
        row(stage);
    }
}

// ---- The rows ---------------------------------------------------------------------------------------------

fn max(stage: &Stage) {
    assert_eq!(stage.statuses("/max/number", 3), [200, 200, 429]);
    assert_eq!(stage.statuses("/max/constant", 3), [200, 200, 429]);
    // One count, and as many as each request is given.
    for form in ["closure", "async", "with", "scope"] {
        let left = |max| stage.left(&format!("/max/{form}/{max}"));
        assert_eq!([left(1), left(1), left(3), left(0), left(3)], [Some(0), None, Some(1), None, Some(0)]);
    }
    assert_eq!(stage.get("/max/with/many").status, 404);
    // No argument.
    let reply = stage.get("/bare");
    assert_eq!((reply.header("x-ratelimit-limit"), reply.header("retry-after")), (Some("100"), None));
}

fn window(stage: &Stage) {
    for (path, window) in [
        ("/window/millis", Duration::from_millis(500)),
        ("/window/seconds", MINUTE),
        ("/window/mixed", HOUR + 30 * MINUTE),
        ("/window/days", 24 * HOUR),
    ] {
        assert_eq!(stage.statuses(path, 1), [200]);
        // The log keeps what is exactly one window old.
        stage.advance(window);
        let denied = stage.get(path);
        assert_eq!((denied.status, denied.header("retry-after")), (429, Some("1")), "{path}");
        stage.advance(Duration::from_micros(1));
        assert_eq!(stage.statuses(path, 1), [200], "{path}");
    }
}

fn zone(stage: &Stage) {
    // At midnight in UTC; in summer the day of Berlin began two hours before.
    for (path, hours) in [("/zone/default", 24), ("/zone/berlin", 22), ("/zone/tokyo", 15)] {
        assert_eq!(stage.statuses(path, 1), [200], "{path}");
        let denied = stage.get(path);
        let wait = (hours * 3600).to_string();
        assert_eq!((denied.status, denied.header("retry-after")), (429, Some(&*wait)), "{path}");
    }
    stage.advance(Duration::from_secs(22 * 3600 - 1));
    assert_eq!(stage.get("/zone/berlin").header("retry-after"), Some("1"));
    stage.advance(Duration::from_secs(1));
    assert_eq!(stage.statuses("/zone/berlin", 2), [200, 429]);
}

fn anchor(stage: &Stage) {
    // Saturday, 3 October 2026.
    for (path, days) in [
        ("/anchor/week", 1),
        ("/anchor/year", 7),
        ("/anchor/month", 12),
        ("/anchor/closure/4", 1),
        ("/anchor/closure/15", 12),
        ("/anchor/with/4", 1),
        ("/anchor/with/15", 12),
        ("/anchor/scope/4", 1),
        ("/anchor/scope/15", 12),
        ("/anchor/weekday", 1),
        ("/anchor/date", 7),
    ] {
        assert_eq!(stage.statuses(path, 1), [200], "{path}");
        let wait = (days * 86_400).to_string();
        assert_eq!(stage.get(path).header("retry-after"), Some(&*wait), "{path}");
    }
    // The length of the window that ends on 4 October.
    let policies = stage.get("/anchor/drafts").header("ratelimit-policy").map(str::to_owned);
    assert_eq!(policies.as_deref(), Some("\"quota\";q=5;w=2592000"));
    stage.advance(24 * HOUR);
    assert_eq!(stage.statuses("/anchor/week", 2), [200, 429]);
}

fn key(stage: &Stage) {
    assert_eq!([stage.get("/key/one").status, stage.get("/key/other").status], [200, 429]);
    assert_eq!([stage.get("/key/own").status, stage.get("/key/own-too").status], [200, 200]);
    for template in ["user", "scope", "ip"] {
        let path = |last| format!("/key/{template}/{last}");
        let passed = [path("7"), path("8"), path("7")].map(|path| stage.get(&path).status);
        // By address it is one caller.
        let other = if template == "ip" { 429 } else { 200 };
        assert_eq!(passed, [200, other, 429], "{template}");
    }
    assert_eq!(stage.callers("/key/header", ["a", "b", "a"]), [200, 200, 429]);
    let joined = ["/key/two/a:b/c", "/key/two/a/b:c", "/key/two/a:b/c"].map(|path| stage.get(path).status);
    assert_eq!(joined, [200, 200, 429]);
}

fn by(stage: &Stage) {
    for form in ["ip", "global", "scope/ip", "scope/global"] {
        assert_eq!(stage.callers(&format!("/by/{form}"), ["a", "b", "a"]), [200, 429, 429], "{form}");
    }
    for form in ["scope", "header", "function", "closure", "extractor", "async", "user", "tuple/1"] {
        assert_eq!(stage.callers(&format!("/by/{form}"), ["a", "b", "a"]), [200, 200, 429], "{form}");
    }
    for form in ["path", "tuple"] {
        let passed = ["3", "4", "3"].map(|last| stage.callers(&format!("/by/{form}/{last}"), ["c"])[0]);
        assert_eq!(passed, [200, 200, 429], "{form}");
    }
    // An extractor that finds no caller responds with its own error.
    assert_eq!(stage.get("/by/user").status, 401);
}

fn on_missing(stage: &Stage) {
    for form in ["/missing", "/missing/scope"] {
        let rejected = stage.get(&format!("{form}/reject"));
        assert_eq!((rejected.status, rejected.header("x-ratelimit-limit")), (400, None));
        let skipped = stage.get(&format!("{form}/skip"));
        assert_eq!((skipped.status, skipped.header("x-ratelimit-limit")), (200, None));
        assert_eq!(stage.statuses(&format!("{form}/skip"), 2), [200, 200]);
        assert_eq!(stage.statuses(&format!("{form}/anonymous"), 2), [200, 429]);
        for answer in ["reject", "skip", "anonymous"] {
            assert_eq!(stage.callers(&format!("{form}/{answer}"), ["a", "a"]), [200, 429], "{answer}");
        }
    }
}

fn on_error(stage: &Stage) {
    let broken = stage.broken();
    assert_eq!(broken.statuses("/error/local", 2), [200, 429]);
    let denied = broken.get("/error/deny");
    assert_eq!((denied.status, denied.header("retry-after")), (503, Some("1")));
    assert_eq!(broken.statuses("/error/allow", 3), [200, 200, 200]);
    // While the store answers, all of them count.
    for answer in ["local", "deny", "allow"] {
        assert_eq!(stage.statuses(&format!("/error/{answer}"), 2), [200, 429], "{answer}");
    }
}

fn algorithm(stage: &Stage) {
    // Two in an hour, sent in its last minute.
    stage.advance(59 * MINUTE);
    let names = ["fixed_window", "sliding_window_counter", "sliding_window_log", "token_bucket", "default"];
    for algorithm in Algorithm::ALL {
        assert!(names.contains(&algorithm.as_str()), "no handler with {algorithm}");
    }
    let each = names.map(|name| format!("/algorithm/{name}"));
    for path in &each {
        assert_eq!(stage.statuses(path, 3), [200, 200, 429], "{path}");
    }
    let mut later = Vec::new();
    for wait in [MINUTE, 30 * MINUTE, 28 * MINUTE, MINUTE + Duration::from_micros(1)] {
        stage.advance(wait);
        later.push(each.each_ref().map(|path| stage.get(path).status));
    }
    assert_eq!(
        later,
        [
            // A new hour begins.
            [200, 429, 429, 429, 429],
            // Half of the hour before counts, and half an hour is one token.
            [200, 200, 429, 200, 200],
            // Two minutes before the hour is over, less than one of the hour before counts.
            [429, 200, 429, 429, 200],
            // The log forgets what is older than an hour, and half an hour is another token.
            [429, 429, 200, 200, 429],
        ]
    );
}

fn sub_windows(stage: &Stage) {
    for (path, left) in [("/sub/six", Some(5)), ("/sub/one", Some(0))] {
        stage.next_day();
        assert_eq!(stage.statuses(path, 7), [200, 200, 200, 200, 200, 200, 429]);
        // Ten minutes after the hour the first of six parts is over; five sixths of a whole still count.
        stage.advance(HOUR + 10 * MINUTE);
        assert_eq!(stage.left(path), left, "{path}");
    }
}

fn burst(stage: &Stage) {
    assert_eq!(stage.statuses("/burst", 4), [200, 200, 200, 429]);
    stage.advance(HOUR);
    assert_eq!(stage.statuses("/burst", 2), [200, 429]);
}

fn cost(stage: &Stage) {
    let left = || stage.left("/cost/number");
    assert_eq!([left(), left(), left()], [Some(6), Some(2), None]);
    for form in ["closure", "with", "scope"] {
        let left = |cost| stage.left(&format!("/cost/{form}/{cost}"));
        assert_eq!([left(0), left(7), left(4), left(3)], [Some(10), Some(3), None, Some(0)], "{form}");
    }
    // What can never pass has no time to come back at.
    for form in ["with", "scope"] {
        let never = stage.get(&format!("/cost/{form}/11"));
        assert_eq!((never.status, never.header("retry-after")), (429, None));
    }
}

fn block(stage: &Stage) {
    assert_eq!(stage.statuses("/block", 2), [200, 200]);
    let wait = || stage.get("/block").header("retry-after").map(str::to_owned);
    assert_eq!(wait().as_deref(), Some("600"));
    stage.advance(9 * MINUTE);
    assert_eq!(wait().as_deref(), Some("60"));
    stage.advance(MINUTE);
    assert_eq!(stage.left("/block"), Some(1));
}

fn mode(stage: &Stage) {
    assert_eq!(stage.statuses("/mode/enforce", 2), [200, 429]);
    for _ in 0..3 {
        let reply = stage.get("/mode/shadow");
        assert_eq!((reply.status, reply.header("x-ratelimit-limit")), (200, None));
    }
}

fn count(stage: &Stage) {
    for (form, counted) in [
        ("all", [true, true, true]),
        ("failures", [false, true, true]),
        ("successes", [true, false, false]),
        ("closure", [false, true, false]),
        ("with", [false, false, true]),
        ("scope/all", [true, true, true]),
        ("scope/failures", [false, true, true]),
        ("scope/successes", [true, false, false]),
        ("scope/closure", [false, true, false]),
    ] {
        let mut left = 3;
        for (status, is_counted) in [200, 404, 503].into_iter().zip(counted) {
            let reply = stage.get(&format!("/count/{form}/{status}"));
            left -= u64::from(is_counted);
            assert_eq!((reply.status, stage::left(&reply)), (status, Some(left)), "{form} {status}");
        }
    }
}

fn charge(stage: &Stage) {
    // The first request is refunded, and so is the second; charged after, each failure is there for the next.
    let forms = ["before", "after", "block", "scope/before", "scope/after", "scope/block"];
    for form in forms {
        for (status, left) in [(200, 3), (404, 2), (503, 1)] {
            let reply = stage.get(&format!("/charge/{form}/{status}"));
            assert_eq!((reply.status, stage::left(&reply)), (status, Some(left)), "{form} {status}");
        }
    }
    let statuses = |form| [404, 200, 200].map(|status| stage.get(&format!("/charge/{form}/{status}")).status);
    for form in forms {
        assert_eq!(statuses(form), [404, 429, 429], "{form}");
    }
    stage.advance(HOUR);
    for form in ["/charge", "/charge/scope"] {
        assert_eq!(stage.get(&format!("{form}/after/200")).status, 200);
        assert_eq!(stage.get(&format!("{form}/block/200")).status, 429, "for a day");
    }
}

fn show(stage: &Stage) {
    let always = [Some(2), Some(1), Some(0)];
    for (form, left) in [
        ("always", always),
        ("denied", [None; 3]),
        ("after", [None; 3]),
        ("scope/always", always),
        ("scope/denied", [None; 3]),
        ("scope/after", [None; 3]),
    ] {
        let reply = || stage.get(&format!("/show/{form}/404"));
        assert_eq!([(); 3].map(|()| stage::left(&reply())), left, "{form}");
        let denied = reply();
        assert_eq!((denied.status, denied.header("x-ratelimit-limit")), (429, Some("3")), "{form}");
    }
}

/// Exactly as without: in memory it is ignored, and in Redis held units admit.
fn lease(stage: &Stage) {
    for path in ["/lease/fixed", "/lease/default", "/lease/tenths"] {
        let passed = stage.statuses(path, 210).into_iter().filter(|status| *status == 200).count();
        assert_eq!(passed, 200, "{path}");
    }
}

fn skip(stage: &Stage) {
    for form in ["closure", "async", "with", "scope"] {
        let path = format!("/skip/{form}");
        assert_eq!(stage.statuses(&path, 2), [200, 429], "{form}");
        let skipped = stage.send(&path, &["X-Internal: 1"]);
        assert_eq!((skipped.status, skipped.header("x-ratelimit-limit")), (200, None), "{form}");
    }
}

fn plan(stage: &Stage) {
    for path in ["/plan", "/plan/scope"] {
        assert_eq!(stage.callers(path, ["free", "free"]), [200, 429], "{path}");
        assert_eq!(stage.callers(path, ["pro", "pro", "pro", "free"]), [200, 200, 429, 429], "{path}");
    }
}

fn name(stage: &Stage) {
    let policies = |path| stage.get(path).header("ratelimit-policy").map(str::to_owned);
    assert_eq!(policies("/name/given").as_deref(), Some("\"shown\";q=10;w=60"));
    assert_eq!(policies("/name/key").as_deref(), Some("\"the-key\";q=10;w=60"));
}

fn policy(stage: &Stage) {
    // Two handlers and the middleware of a scope share the count.
    let shared = ["/policy/one", "/policy/scope/free", "/policy/other", "/policy/one"];
    assert_eq!(shared.map(|path| stage.get(path).status), [200, 200, 200, 429]);
    assert_eq!(stage.callers("/policy/caller", ["a", "b", "a"]), [200, 200, 429]);
}

fn inner(stage: &Stage) {
    let doubled = rt::System::new().block_on(handlers::double_directly(web::Path::from(4)));
    assert_eq!(doubled, "8");
    let reply = stage.get("/double/4");
    assert_eq!((reply.status, reply.body.as_str()), (200, "8"));
    assert_eq!(stage.statuses("/double/4", 1), [429]);
}

fn facade(stage: &Stage) {
    assert_eq!(stage.statuses("/renamed", 2), [200, 429]);
}
