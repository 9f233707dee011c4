//! Reservations that outlive the request that made them, on every store.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use ratelimit_core::clock::FakeClock;
use ratelimit_core::{Algorithm, Check, MemoryStore, Policy, RateLimiter, Reservation, Timestamp};
use tests::timed::{self, Timed};

fn policy(key: String, algorithm: Algorithm) -> Policy {
    Policy::builder("k").algorithm(algorithm).max(10).build().with_key(key).unwrap()
}

/// Charges a group whose policies and callers live no longer than this call.
fn charge(store: &Timed, algorithm: Algorithm) -> Reservation<'static> {
    let (one, other) = (policy(format!("one-{algorithm}"), algorithm), policy("other".to_owned(), algorithm));
    let caller = String::from("tenant-42");
    let group = [
        Check::new(&one, &caller).with_cost(4),
        Check::new(&other, &caller).with_cost(3),
        Check::new(&one, &caller).with_cost(2),
    ];
    store.check_all(&group).reservation(&group).unwrap().into_owned()
}

fn an_owned_reservation_is_refunded_after_its_request(store: &Timed) {
    for &algorithm in Algorithm::ALL {
        let (one, other) =
            (policy(format!("one-{algorithm}"), algorithm), policy("other".to_owned(), algorithm));
        let remaining = || [&one, &other].map(|policy| store.peek(policy, "tenant-42").remaining());
        let reservation = charge(store, algorithm);
        assert_eq!(remaining(), [4, 7], "{algorithm}");
        store.advance(Duration::from_micros(1));
        // Moved to a job on another thread, as in a service.
        let reservation = std::thread::spawn(move || reservation).join().unwrap();
        store.run(store.limiter.refund(reservation.clone())).unwrap();
        assert_eq!(remaining(), [10, 10], "{algorithm}");
        store.advance(Duration::from_secs(3600));
    }
}

#[test]
fn an_owned_reservation_is_refunded_in_memory() {
    an_owned_reservation_is_refunded_after_its_request(&timed::memory());
}

#[test]
fn an_owned_reservation_is_refunded_in_redis() {
    let Some(store) = timed::redis() else { return };
    an_owned_reservation_is_refunded_after_its_request(&store);
}

#[tokio::test]
async fn an_owned_reservation_of_an_overflow_count_is_not_settled() {
    let clock = FakeClock::at(Timestamp::from_micros(1_000_000));
    let limiter = RateLimiter::new(MemoryStore::with_max_callers(1).with_clock(clock));
    let policy = Policy::builder("k").max(10).build();
    assert!(limiter.check(&policy, "first").await.unwrap().is_allowed());
    // There is no room for more callers, so they share a count.
    let group = [Check::new(&policy, "second").with_cost(4)];
    let reservation = limiter.check_all(&group).await.unwrap().reservation(&group).unwrap().into_owned();
    for actual in [9, 0] {
        limiter.settle(reservation.clone(), actual).await.unwrap();
        assert_eq!(limiter.peek(&policy, "third").await.unwrap().remaining(), 6, "units of others, {actual}");
    }
}
