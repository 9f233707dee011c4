//! What metrics and the readiness probe show of an outage.

use std::time::Duration;

use tests::client;
use tests::redis::server;

#[test]
fn metrics_show_an_outage_and_the_probe_shows_readiness() {
    let Some(mut server) = server() else { return };
    let demo = tests::demo::Demo::start(env!("CARGO_BIN_EXE_demo-metrics"), &[("REDIS_URL", &server.url())]);
    let value = |line: &str| -> Option<f64> {
        let text = client::get(demo.address, "/metrics", &[]).body;
        let found = text.lines().find_map(|other| other.strip_prefix(line)?.strip_prefix(' '));
        found.map(|value| value.parse().unwrap())
    };
    let status = |path: &str| client::get(demo.address, path, &[]).status;
    let limit = Duration::from_secs(10);
    assert!(tests::within(limit, || status("/ready") == 200), "never ready");
    assert_eq!(status("/api/public"), 200);
    assert_eq!(value("ratelimit_decisions_total{policy=\"public\",outcome=\"allowed\"}"), Some(1.0));
    assert_eq!(value("ratelimit_store_seconds_count"), Some(1.0));
    assert!(value("ratelimit_redis_connected") >= Some(1.0));
    let made = || value("ratelimit_redis_connections_total").unwrap();
    assert!((1.0..=3.0).contains(&made()), "of the store, and of two workers at most: {}", made());
    server.kill();
    assert!(tests::within(limit, || status("/ready") == 503), "ready without a server");
    // Eleven requests, or more if the minute of the limit ends amid them.
    let asked = f64::from((1..100).find(|_| status("/api/public") == 429).expect("a denial"));
    assert!(asked >= 11.0, "{asked}");
    let degraded = |outcome: &str| {
        value(&format!(
            "ratelimit_degraded_decisions_total{{policy=\"public\",on_error=\"local\",outcome=\"{outcome}\"}}"
        ))
    };
    assert_eq!((degraded("allowed"), degraded("denied")), (Some(asked - 1.0), Some(1.0)));
    assert_eq!(value("ratelimit_decisions_total{policy=\"public\",outcome=\"denied\"}"), Some(1.0));
    let failures = ["unavailable", "timeout"].map(|class| {
        value(&format!("ratelimit_store_failures_total{{class=\"{class}\"}}")).unwrap_or_default()
    });
    assert_eq!(failures.iter().sum::<f64>().to_string(), asked.to_string());
    assert_eq!(value("ratelimit_fallback_callers"), Some(1.0));
    assert_eq!(value("ratelimit_redis_connected"), Some(0.0));
    let made_before = made();
    server.restart();
    assert!(tests::within(limit, || status("/ready") == 200), "not ready again");
    assert!(made() > made_before, "{made_before}");
    // A server that hangs opens the circuit breaker.
    let open = || value("ratelimit_redis_open_slot_ranges");
    server.signal("STOP");
    let is_open = tests::within(limit, || {
        status("/api/public");
        open() == Some(1.0)
    });
    server.signal("CONT");
    assert!(is_open, "{:?}", open());
    assert!(tests::within(limit, || open() == Some(0.0)), "{:?}", open());
}
