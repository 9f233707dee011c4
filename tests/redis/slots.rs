//! Slots of concurrency limits that several processes share: what is stored, and when slots are free again.

mod script;

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use metrics_exporter_prometheus::PrometheusBuilder;
use ratelimit_core::conformance::Reference;
use ratelimit_core::store::toolkit::owned;
use ratelimit_core::{Algorithm, Check, Decision, OnError, Policy, RateLimiter, SettleError, StoreError};
use redis::AsyncCommands;
use tests::clock_at_start;
use tests::redis::{Server, server};

use super::only_key;

static TWO: Policy =
    Policy::builder("slots").algorithm(Algorithm::Concurrency).max(2).on_error(OnError::Deny).build();

/// The stored entries of a caller: until when each counts, and how many slots.
fn entries(stored: &[u8]) -> Vec<(u64, u64)> {
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    assert_eq!((stored[0], stored.len()), (b'n', 3 + 25 * usize::try_from(number(&stored[1..3])).unwrap()));
    let entry = |entry: &[u8]| {
        let (granted, freed) = (number(&entry[13..19]), number(&entry[19..25]));
        (number(&entry[..7]), granted.wrapping_sub(freed) % (1 << 48))
    };
    stored[3..].chunks(25).map(entry).collect()
}

/// Slots that the server counts as held under these keys. A key that is gone has none.
async fn held_at(server: &Server, pattern: &str) -> u64 {
    let mut connection = server.raw().await;
    let keys: Vec<String> = connection.keys(pattern).await.unwrap();
    let mut held = 0;
    for key in keys {
        let stored: Option<Vec<u8>> = connection.get(key).await.unwrap();
        held += stored.map_or(0, |stored| entries(&stored).iter().map(|entry| entry.1).sum::<u64>());
    }
    held
}

/// Waits until the server counts `expected` slots as held. A freed slot is reported in the background.
async fn until_held(server: &Server, pattern: &str, expected: u64) {
    for _ in 0..5_000 {
        if held_at(server, pattern).await == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(held_at(server, pattern).await, expected, "slots held under {pattern}");
}

#[tokio::test]
async fn processes_share_the_slots_of_a_caller() {
    let Some(server) = server() else { return };
    let [one, other] = [(); 2].map(|()| server.limiter());
    let first = one.acquire(&TWO, "a").await.unwrap().unwrap();
    let second = other.acquire(&TWO, "a").await.unwrap().unwrap();
    for limiter in [&one, &other] {
        let busy = limiter.acquire(&TWO, "a").await.unwrap().unwrap_err();
        assert!(busy.is_busy() && busy.decision() == Decision::Busy && busy.retry_after().is_none());
        assert!(limiter.peek(&TWO, "a").await.unwrap().is_busy());
        assert!(limiter.acquire(&TWO, "b").await.unwrap().is_ok(), "another caller");
    }
    let key = "rl1:slots:n:*";
    until_held(&server, key, 2).await;
    drop(first);
    until_held(&server, key, 1).await;
    let third = other.acquire(&TWO, "a").await.unwrap();
    assert!(third.is_ok() && one.acquire(&TWO, "a").await.unwrap().is_err());
    drop((second, third));
    until_held(&server, key, 0).await;
}

/// By the clock of the server: under that of a test every key lives for an hour.
#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "measures the life of a key")]
async fn a_denied_process_without_slots_shortens_the_life_of_no_entry() {
    let Some(server) = server() else { return };
    let [holder, other] = [(); 2].map(|()| server.limiter());
    let one = Policy::concurrency("one", 1);
    let began = Instant::now();
    let slot = holder.acquire(&one, "a").await.unwrap().unwrap();
    assert!(other.acquire(&one, "a").await.unwrap().is_err());
    let lives: u64 = server.raw().await.pttl(only_key(&server).await).await.unwrap();
    // Until 10 s after the last message of the process that holds the slot.
    assert!(Duration::from_millis(lives) + began.elapsed() >= Duration::from_secs(10), "{lives} ms");
    drop(slot);
}

#[tokio::test]
async fn callers_of_one_call_have_slots_of_their_own() {
    let Some(server) = server() else { return };
    let [limiter, other] = [(); 2].map(|()| server.limiter());
    let held = other.acquire(&TWO, "a").await.unwrap().unwrap();
    // The first request is sent at once, and the others together after it.
    let requests = ["c", "a", "b", "a", "b", "b"].map(|caller| limiter.acquire(&TWO, caller));
    let slots: Vec<_> =
        futures_util::future::join_all(requests).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(slots.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, true, false, true, false]);
    drop((held, slots));
    until_held(&server, "rl1:slots:n:*", 0).await;
}

/// A denial is never cached, so the freed slot is seen at once.
#[tokio::test]
async fn a_freed_slot_is_taken_by_the_next_request_of_the_same_process_at_once() {
    let Some(server) = server() else { return };
    let limiter = server.limiter();
    let one = Policy::concurrency("one", 1);
    for _ in 0..50 {
        let slot = limiter.acquire(&one, "a").await.unwrap().unwrap();
        assert!(limiter.acquire(&one, "a").await.unwrap().is_err());
        drop(slot);
    }
    assert!(limiter.acquire(&one, "a").await.unwrap().is_ok());
}

#[tokio::test]
async fn a_request_whose_future_is_dropped_holds_no_slot() {
    let Some(server) = server() else { return };
    let limiter = server.limiter();
    // More than there are requests: a denial would be repeated without a call.
    let many = Policy::concurrency("slots", 30);
    drop(limiter.acquire(&many, "a").await.unwrap().unwrap());
    for _ in 0..20 {
        // The request is sent, and dropped before the reply.
        assert!(limiter.acquire(&many, "a").now_or_never().is_none());
    }
    // Goes over the same connection, so the server has decided all of them when it replies.
    let _ = limiter.peek(&many, "a").await.unwrap();
    until_held(&server, "rl1:slots:*", 0).await;
    assert_eq!(limiter.peek(&many, "a").await.unwrap().remaining(), 30);
}

#[tokio::test]
async fn slots_are_neither_refunded_nor_settled_nor_charged_up_to_a_number() {
    let Some(server) = server() else { return };
    for limiter in
        [server.limiter(), RateLimiter::in_memory(), RateLimiter::new(Reference::new(&clock_at_start()))]
    {
        let group = [Check::new(&TWO, "a")];
        let outcome = limiter.check_all(&group).await.unwrap();
        let reservation = outcome.reservation(&group).unwrap();
        limiter.refund(owned(&reservation)).await.unwrap();
        assert_eq!(limiter.peek(&TWO, "a").await.unwrap().remaining(), 1, "still held");
        let settled = limiter.settle(reservation, 0).await;
        assert!(matches!(settled, Err(SettleError::ConcurrencyLimit { limit, .. }) if limit == "slots"));
        let up_to = limiter.check_up_to(&TWO, "a", 5).await;
        assert!(matches!(up_to, Err(StoreError::ConcurrencyLimit { limit, .. }) if limit == "slots"));
        drop(outcome);
        assert_eq!(limiter.peek(&TWO, "a").await.unwrap().remaining(), 2);
    }
}

#[tokio::test]
async fn after_a_reset_slots_that_requests_hold_are_reported_again() {
    let Some(server) = server() else { return };
    let (one, other) = (server.limiter(), server.limiter());
    let slot = one.acquire(&TWO, "a").await.unwrap().unwrap();
    let leaked = one.acquire(&TWO, "a").await.unwrap().unwrap();
    one.reset(&TWO, "a").await.unwrap();
    until_held(&server, "rl1:slots:*", 2).await;
    // Another process resets. This process reports its slots again with the next message.
    other.reset(&TWO, "a").await.unwrap();
    assert_eq!(other.peek(&TWO, "a").await.unwrap().remaining(), 2);
    assert!(one.acquire(&TWO, "a").await.unwrap().is_err(), "the process holds both");
    drop((slot, leaked));
    until_held(&server, "rl1:slots:*", 0).await;
}

/// The clock of the process stands still, so the message of every 3 s is not sent.
#[tokio::test]
async fn a_reset_by_the_process_that_holds_slots_reports_them_again_at_once() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let [one, other] = [(), ()].map(|()| RateLimiter::new(server.store_at(&clock)));
    let slot = one.acquire(&TWO, "a").await.unwrap().unwrap();
    one.reset(&TWO, "a").await.unwrap();
    until_held(&server, "rl1:slots:*", 1).await;
    assert_eq!(other.peek(&TWO, "a").await.unwrap().remaining(), 1);
    drop(slot);
}

/// Waits until the only key holds these entries.
async fn until_stored(server: &Server, expected: &[(u64, u64)]) {
    let key = only_key(server).await;
    let mut stored = Vec::new();
    for _ in 0..5_000 {
        stored = entries(&server.raw().await.get::<_, Vec<u8>>(&key).await.unwrap());
        if stored == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(stored, expected);
}

/// The server stores nothing for a peek, so a peek neither renews an entry nor replaces a renewal.
#[tokio::test]
async fn slots_that_processes_only_peek_at_are_renewed() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let [one, other] = [(); 2].map(|()| server.limiter_at(&clock));
    let stream = one.acquire(&TWO, "a").await.unwrap().unwrap();
    for second in 1..=14 {
        clock.advance(Duration::from_secs(1));
        for limiter in [&one, &other] {
            assert_eq!(limiter.peek(&TWO, "a").await.unwrap().remaining(), 1, "after {second} s");
        }
        if second % 3 == 0 {
            until_stored(&server, &[(tests::START + (second + 10) * 1_000_000, 1)]).await;
        }
    }
    drop(stream);
    until_held(&server, "rl1:slots:*", 0).await;
    assert_eq!(other.peek(&TWO, "a").await.unwrap().remaining(), 2);
}

#[tokio::test]
async fn a_corrupt_state_of_slots_fails_its_caller_and_ends_by_itself() {
    let Some(server) = server() else { return };
    let limiter = server.limiter();
    let slot = limiter.acquire(&TWO, "a").await.unwrap().unwrap();
    let key = only_key(&server).await;
    let good: Vec<u8> = server.raw().await.get(&key).await.unwrap();
    let mut freed_more_than_granted = good.clone();
    freed_more_than_granted[3 + 19] = good[3 + 13] + 1;
    for bad in [
        &b"n"[..],
        b"n\0",
        b"n\x01\0",
        &good[..25],
        &[&good[..], b"x"].concat(),
        b"f",
        &freed_more_than_granted,
    ] {
        let _: () = server.raw().await.set(&key, bad).await.unwrap();
        let error = limiter.acquire(&TWO, "a").await.unwrap_err();
        assert!(matches!(error, StoreError::CorruptState { .. }), "{bad:?}: {error}");
        let lives: i64 = server.raw().await.pttl(&key).await.unwrap();
        assert!((1..=11_000).contains(&lives), "{bad:?}: {lives}");
        let kept: Vec<u8> = server.raw().await.get(&key).await.unwrap();
        assert_eq!(kept, bad, "left as it is");
        assert!(limiter.acquire(&TWO, "b").await.unwrap().is_ok());
    }
    let _: () = server.raw().await.del(&key).await.unwrap();
    assert_eq!(limiter.peek(&TWO, "a").await.unwrap().remaining(), 1, "the slot in use is reported again");
    drop(slot);
}

/// The gauge counts the slots that requests of this process hold, in memory as in Redis.
#[test]
fn the_gauge_rises_and_falls_with_the_slots_that_this_process_holds() {
    let Some(server) = server() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for in_redis in [true, false] {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        let gauge = || {
            let text = handle.render();
            let line =
                text.lines().find_map(|line| line.strip_prefix("ratelimit_slots_held{policy=\"slots\"} "));
            line.map(|value| value.parse::<f64>().unwrap().to_string())
        };
        metrics::with_local_recorder(&recorder, || {
            runtime.block_on(async {
                let [limiter, other] =
                    [(); 2].map(|()| if in_redis { server.limiter() } else { RateLimiter::in_memory() });
                let held = limiter.acquire(&TWO, "a").await.unwrap().unwrap();
                assert_eq!(gauge().as_deref(), Some("1"));
                let group = [Check::new(&TWO, "b").with_cost(2)];
                let both = limiter.check_all(&group).await.unwrap();
                assert_eq!(gauge().as_deref(), Some("3"));
                // Neither a denial, nor a peek, nor a check of one limit holds a slot.
                assert!(limiter.check_all(&group).await.unwrap().is_busy());
                assert!(limiter.peek(&TWO, "a").await.unwrap().is_allowed());
                assert!(limiter.check(&TWO, "a").await.unwrap().is_allowed());
                assert_eq!(gauge().as_deref(), Some("3"));
                drop(other.acquire(&TWO, "a").await.unwrap());
                drop(both);
                assert_eq!(gauge().as_deref(), Some("1"));
                drop(held);
                assert_eq!(gauge().as_deref(), Some("0"));
            });
        });
    }
}
