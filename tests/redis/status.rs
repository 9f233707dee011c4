//! What the store reports about itself: calls, denial cache, and a circuit breaker that is open.

use std::time::Duration;

use ratelimit_core::RateLimiter;
use tests::lane::Lane;
use tests::redis::server;
use tests::{clock_at_start, within};

use super::{MINUTE, decides};

/// Longest wait for something that takes about a second: a limit for the test, not a measure.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn calls_and_cached_denials_are_counted() {
    let Some(server) = server() else { return };
    let limiter = server.limiter_at(&clock_at_start());
    assert!(decides(&limiter).await);
    for _ in 0..3 {
        assert!(limiter.check(&MINUTE, "a").await.unwrap().is_allowed());
    }
    for _ in 0..3 {
        assert!(!limiter.check(&MINUTE, "a").await.unwrap().is_allowed());
    }
    let callers: Vec<String> = (0..64).map(|number| number.to_string()).collect();
    let decided = server.join_in_batches(callers.iter().map(|caller| limiter.check(&MINUTE, caller))).await;
    assert!(decided.iter().all(Result::is_ok));
    let status = limiter.store_status();
    assert!(!status.is_out && status.callers.is_none(), "{status:?}");
    let connection = status.connection.unwrap();
    assert!(connection.is_connected && connection.open_slot_ranges.is_empty(), "{connection:?}");
    assert_eq!((connection.connections, connection.lanes, connection.slot_ranges), (1, 1, 1));
    assert_eq!((connection.cached_denials, connection.denial_cache_hits), (1, 2), "{connection:?}");
    let (round_trip, batch) = (connection.round_trip_us, connection.batch);
    assert!(0 < round_trip.p50 && round_trip.p50 <= round_trip.p99 && round_trip.p99 <= round_trip.max);
    assert!(batch.count == round_trip.count && batch.max > 1 && batch.max <= 64, "{connection:?}");
    // Four checks and a peek or more one by one, and the 64 callers.
    assert!(batch.sum >= 69, "{connection:?}");
    // One more is that of a worker.
    Lane::Worker.until_connected(&limiter).await;
    let connection = limiter.store_status().connection.unwrap();
    assert_eq!((connection.connections, connection.lanes), (2, 2));
}

#[tokio::test]
async fn a_hung_server_shows_as_an_open_circuit_breaker() {
    let Some(server) = server() else { return };
    let limiter = RateLimiter::redis(&server.url()).unwrap();
    // By `peek`, which no figure of the limit counts.
    assert!(decides(&limiter).await);
    server.signal("STOP");
    for _ in 0..4 {
        assert!(limiter.check(&MINUTE, "a").await.is_err());
    }
    let status = limiter.store_status();
    assert_eq!((status.is_out, status.connection.unwrap().open_slot_ranges), (true, vec![0]));
    let limits = limiter.stats().limits();
    assert_eq!((limits[0].name(), limits[0].totals().unavailable), ("minute", 4));
    server.signal("CONT");
    assert!(within(PATIENCE, || limiter.store_status().connection.unwrap().open_slot_ranges.is_empty()));
}
