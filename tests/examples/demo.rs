//! The demo service over real connections, with counts in memory and in Redis.

use std::time::Duration;

use ratelimit_core::Algorithm;
use tests::demo::{Demo, within_one_minute};
use tests::{client, redis, within};

const DEMO: &str = env!("CARGO_BIN_EXE_demo");

/// Longest wait for something that takes about a second: a limit for the test, not a measure.
const PATIENCE: Duration = Duration::from_secs(20);

fn status(demo: &Demo, method: &str, path: &str, headers: &[&str]) -> u16 {
    client::send(demo.address, method, path, headers).status
}

/// Waits until the demo is connected to its store.
fn connected(demo: Demo, url: &str) -> Demo {
    redis::query(url, "FLUSHALL");
    let counts_there = || {
        status(&demo, "GET", "/api/data", &[]);
        redis::query(url, "DBSIZE") != ":0"
    };
    assert!(within(PATIENCE, counts_there));
    redis::query(url, "FLUSHALL");
    demo
}

/// Twelve requests against ten a minute. `store` gives the variables for a store in which nothing is counted
/// yet.
fn twelve_requests(algorithm: &str, mut store: impl FnMut() -> Option<(&'static str, String)>) {
    let replies = within_one_minute(|| {
        let store = store();
        let mut variables = vec![("ALGORITHM", algorithm)];
        variables.extend(store.as_ref().map(|(name, value)| (*name, value.as_str())));
        let demo = Demo::start(DEMO, &variables);
        let demo = if let Some((_, url)) = &store { connected(demo, url) } else { demo };
        let reply = |_| client::get(demo.address, "/api/public", &[]);
        (0..12).map(reply).collect::<Vec<_>>()
    });
    for (i, reply) in replies.iter().enumerate() {
        let remaining = reply.header("x-ratelimit-remaining").unwrap();
        assert_eq!(reply.header("x-ratelimit-limit"), Some("10"), "{algorithm}");
        if i < 10 {
            assert_eq!((reply.status, reply.body.as_str()), (200, "public data\n"), "{algorithm}");
            assert_eq!(remaining, (9 - i).to_string(), "{algorithm}");
            assert_eq!(reply.header("retry-after"), None, "{algorithm}");
        } else {
            assert_eq!((reply.status, remaining), (429, "0"), "{algorithm}");
            let seconds: u64 = reply.header("retry-after").unwrap().parse().unwrap();
            assert!((1..=61).contains(&seconds), "{algorithm}: {seconds}");
            assert!(reply.body.contains(&format!("\"retryAfter\":{seconds}")), "{}", reply.body);
        }
    }
}

#[test]
fn ten_of_twelve_requests_pass_with_every_algorithm() {
    for algorithm in Algorithm::ALL.iter().map(|algorithm| algorithm.as_str()) {
        twelve_requests(algorithm, || None);
    }
}

#[test]
fn two_services_on_one_redis_are_limited_as_one() {
    let Some(mut server) = redis::server() else { return };
    within_one_minute(|| {
        server.restart();
        let url = server.url();
        let demos = [(); 2].map(|()| connected(Demo::start(DEMO, &[("REDIS_URL", &url)]), &url));
        assert!(demos[0].introduction.contains("store: redis"), "{}", demos[0].introduction);
        for i in 0..12 {
            let expected = if i < 10 { 200 } else { 429 };
            assert_eq!(status(&demos[i % 2], "GET", "/api/public", &[]), expected, "request {i}");
        }
    });
}

#[test]
fn limits_hold_in_process_while_redis_is_down_and_are_shared_again_after() {
    let Some(mut server) = redis::server() else { return };
    let demo = Demo::start(DEMO, &[("REDIS_URL", &server.url()), ("RUST_LOG", "off")]);
    let demo = connected(demo, &server.url());
    server.kill();
    within_one_minute(|| {
        let seen: Vec<u16> = (0..12).map(|_| status(&demo, "GET", "/api/public", &[])).collect();
        // On a repetition, after the first run met the edge of a minute, the ten may be used up.
        assert!(seen.iter().all(|status| [200, 429].contains(status)), "{seen:?}");
        assert_eq!(seen[10..], [429, 429]);
    });
    assert_eq!(status(&demo, "GET", "/api/status", &[]), 200);
    server.restart();
    assert!(within(PATIENCE, || {
        status(&demo, "GET", "/api/data", &[]);
        server.query("DBSIZE") != ":0"
    }));
}

#[test]
fn the_numbers_of_a_file_apply_and_a_changed_file_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.toml");
    let shown = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/limits.toml");
    std::fs::copy(shown, &path).unwrap();
    let demo = Demo::start(DEMO, &[("LIMITS_FILE", path.to_str().unwrap())]);
    let limit = |path: &str, field: &str| {
        client::get(demo.address, path, &[field]).header("x-ratelimit-limit").map(str::to_owned)
    };
    assert_eq!(limit("/api/user/7", "").as_deref(), Some("20"));
    assert_eq!(limit("/api/protected", "X-API-Key: alice-key").as_deref(), Some("500"));
    assert_eq!(limit("/api/protected", "X-API-Key: bob-key").as_deref(), Some("10"));
    std::fs::write(&path, "[limit.user-api]\nmax = 30\n").unwrap();
    assert!(within(PATIENCE, || limit("/api/user/7", "").as_deref() == Some("30")));
    std::fs::write(&path, "[limit.user-apy]\nmax = 40\n").unwrap();
    assert_eq!(limit("/api/user/7", "").as_deref(), Some("30"));
}

#[test]
fn a_file_with_a_mistake_ends_the_demo_with_what_was_expected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.toml");
    std::fs::write(&path, "[limit.user-apy]\nmax = 40\n").unwrap();
    let output =
        std::process::Command::new(DEMO).env("LIMITS_FILE", &path).env("PORT", "0").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && text.contains("did you mean `user-api`?"), "{text}");
}

#[test]
fn every_endpoint_has_its_own_limit() {
    let endpoints = [
        ("GET", "/api/data", 100),
        ("POST", "/api/expensive-operation", 10),
        ("GET", "/api/user/7", 50),
        ("POST", "/api/login", 5),
        ("GET", "/api/protected", 10),
    ];
    within_one_minute(|| {
        let demo = Demo::start(DEMO, &[]);
        for (method, path, limit) in endpoints {
            for i in 0..=limit {
                let expected = if i < limit { 200 } else { 429 };
                assert_eq!(status(&demo, method, path, &[]), expected, "{path}, request {i}");
            }
        }
        for _ in 0..101 {
            assert_eq!(status(&demo, "GET", "/api/status", &[]), 200);
        }
    });
}

#[test]
fn only_a_known_api_key_has_a_count_of_its_own() {
    within_one_minute(|| {
        let demo = Demo::start(DEMO, &[]);
        let status_with_key =
            |key: &str| status(&demo, "GET", "/api/protected", &[&format!("X-API-Key: {key}")]);
        for _ in 0..10 {
            assert_eq!(status_with_key("alice-key"), 200);
        }
        assert_eq!(status_with_key("alice-key"), 429);
        assert_eq!(status_with_key("bob-key"), 200);
        for made_up in 0..10 {
            assert_eq!(status_with_key(&format!("made-up-{made_up}")), 200);
        }
        assert_eq!(status_with_key("made-up-10"), 429);
        assert_eq!(status(&demo, "GET", "/api/protected", &[]), 429);
    });
}

#[test]
fn the_page_for_operators_needs_the_token() {
    let without = Demo::start(DEMO, &[]);
    for path in ["/_limits/", "/operator"] {
        assert_eq!(status(&without, "GET", path, &["Authorization: Bearer "]), 404);
    }
    let demo = Demo::start(DEMO, &[("ADMIN_TOKEN", "s3cret-s3cret-s3cret")]);
    for wrong in [
        "Accept: */*",
        "Authorization: Bearer s3cre",
        "Authorization: s3cret-s3cret-s3cret",
        "Cookie: operator=",
    ] {
        assert_eq!(status(&demo, "GET", "/_limits/", &[wrong]), 404, "{wrong}");
    }
    assert_eq!(status(&demo, "GET", "/api/data", &[]), 200);
    for right in ["Authorization: Bearer s3cret-s3cret-s3cret", "Cookie: a=b; operator=s3cret-s3cret-s3cret"]
    {
        assert_eq!(status(&demo, "GET", "/_limits/", &[right]), 200, "{right}");
        let limits = client::get(demo.address, "/_limits/limits.json", &[right]).body;
        assert!(limits.contains("\"window_us\":60000000") && limits.contains("api.rs"), "{limits}");
    }
    assert_eq!(status(&demo, "GET", "/operator", &[]), 200);
    assert_eq!(status(&demo, "POST", "/operator", &[]), 415, "without a form");
}

#[test]
fn the_demo_prints_its_address_and_its_store() {
    let demo = Demo::start(DEMO, &[("BIND", "127.0.0.1")]);
    let expected = format!("Listening on http://{}, store: memory. Try:", demo.address);
    assert_eq!(demo.introduction, expected);
}

#[test]
fn an_invalid_setting_is_named_and_a_url_is_not_shown() {
    const ALGORITHMS: &str = "error: ALGORITHM must be one of fixed_window, sliding_window_counter, sliding_window_log, \
                              token_bucket\n";
    let cases = [
        ("PORT", "80a", "error: PORT must be a number from 0 to 65535: invalid digit found in string\n"),
        (
            "PORT",
            "65536",
            "error: PORT must be a number from 0 to 65535: number too large to fit in target type\n",
        ),
        ("ADMIN_TOKEN", "a b", "error: ADMIN_TOKEN must be at least 16 letters, digits, `-` and `_`\n"),
        ("BIND", "localhost", "error: BIND must be an IP address: invalid IP address syntax\n"),
        ("ALGORITHM", "leaky", ALGORITHMS),
        ("ALGORITHM", "concurrency", ALGORITHMS),
    ];
    for (variable, value, expected) in cases {
        assert_eq!(Demo::refusal(DEMO, &[(variable, value)]), expected);
    }
    for url in ["hunter2", "http://user:hunter2@127.0.0.1/", ""] {
        let said = Demo::refusal(DEMO, &[("REDIS_URL", url)]);
        assert!(said.starts_with("error: REDIS_URL cannot be used: "), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}
