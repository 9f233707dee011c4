//! The services of `examples/`, started and asked what their README says.

use tests::client::{self, Reply};
use tests::demo::{Demo, within_one_minute};

const BEHIND_PROXY: &str = env!("CARGO_BIN_EXE_demo-behind-proxy");
const HEADERS: &str = env!("CARGO_BIN_EXE_demo-headers");
const API_KEYS: &str = env!("CARGO_BIN_EXE_demo-api-keys");
const SCOPE: &str = env!("CARGO_BIN_EXE_demo-scope");

/// Asks an example, freshly started, all of these in one minute: a path and a header line each.
fn ask<const N: usize>(example: &str, variables: &[(&str, &str)], requests: [(&str, &str); N]) -> [Reply; N] {
    within_one_minute(|| {
        let demo = Demo::start(example, variables);
        requests.map(|(path, header)| client::get(demo.address, path, &[header]))
    })
}

fn statuses<const N: usize>(replies: &[Reply; N]) -> [u16; N] {
    replies.each_ref().map(|reply| reply.status)
}

#[test]
fn behind_proxy_counts_clients_and_not_the_proxy() {
    let requests = [
        ("/", "X-Forwarded-For: 198.51.100.1, 203.0.113.9"),
        ("/", "X-Forwarded-For: 198.51.100.2, 203.0.113.9"),
        ("/", "X-Forwarded-For: 198.51.100.3, 203.0.113.9"),
        ("/", "X-Forwarded-For: 198.51.100.4, 203.0.113.9"),
        ("/", "X-Forwarded-For: 203.0.113.10"),
    ];
    let replies = ask(BEHIND_PROXY, &[("TRUSTED_PROXIES", "127.0.0.1")], requests);
    assert_eq!(statuses(&replies), [200, 200, 200, 429, 200]);
}

#[test]
fn headers_has_two_limits() {
    let requests = [("/", "Accept: */*"); 3];
    let replies = ask(HEADERS, &[], requests);
    assert_eq!(statuses(&replies), [200, 200, 429]);
    assert_eq!(replies[0].header("x-ratelimit-limit"), Some("2"));
    assert!(replies[2].body.starts_with(r#"{"error":"Too Many Requests","#), "{}", replies[2].body);
    let replies = ask(HEADERS, &[("BODY_STYLE", "text")], requests);
    assert!(replies[2].body.starts_with("Rate limit exceeded."), "{}", replies[2].body);
}

#[test]
fn api_keys_counts_accounts_and_not_what_is_made_up() {
    let keys = ["alice-key", "made-up-1", "made-up-2", "bob-key", "alice-key"];
    let headers = keys.map(|key| format!("X-API-Key: {key}"));
    let replies = ask(API_KEYS, &[], headers.each_ref().map(|header| ("/", header.as_str())));
    let bodies = replies.each_ref().map(|reply| reply.body.as_str());
    assert_eq!(bodies, ["4 left\n", "4 left\n", "3 left\n", "4 left\n", "3 left\n"]);
}

#[test]
fn scope_limits_all_routes_but_one() {
    let paths = [
        "/api/report",
        "/api/report",
        "/api/items/7",
        "/api/items/7",
        "/api/items/7",
        "/api/items/7",
        "/api/health",
    ];
    let replies = ask(SCOPE, &[], paths.map(|path| (path, "Accept: */*")));
    assert_eq!(statuses(&replies), [200, 429, 200, 200, 200, 429, 200]);
    assert_eq!(replies[6].header("x-ratelimit-limit"), None);
}

#[test]
fn a_port_that_is_none_is_a_clear_error() {
    for example in [BEHIND_PROXY, HEADERS, API_KEYS, SCOPE] {
        let said = Demo::refusal(example, &[("PORT", "65536")]);
        assert_eq!(said, "error: PORT must be a number from 0 to 65535\n");
    }
}
