//! Slots under faults: processes that are killed and stopped, connections that are cut, data that is lost,
//! and a replica that takes over.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real waits")]

mod processes;

use std::time::{Duration, Instant};

use ratelimit_core::{Check, Policy, RateLimiter, RedisStore};
use tests::redis::{Server, server};
use tests::timed::report;

/// A process that takes and frees slots.
const HOLDER: &str = env!("CARGO_BIN_EXE_holder");

static STREAMS: Policy = Policy::concurrency("streams", 3);

fn limiter(server: &Server) -> RateLimiter {
    RateLimiter::new(RedisStore::builder(&server.url()).build().unwrap())
}

async fn until_up(limiter: &RateLimiter) {
    let began = Instant::now();
    while limiter.peek(&STREAMS, "a").await.map_or(true, |peeked| peeked.is_degraded()) {
        assert!(began.elapsed() < Duration::from_secs(20), "the store does not come back");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The server comes back empty. Slots in use are reported before anything else on the new connection.
#[tokio::test]
async fn a_server_that_lost_its_data_gets_reports_of_slots_before_anything_else() {
    let Some(mut server) = server() else { return };
    let holder = limiter(&server);
    until_up(&holder).await;
    let slots = [holder.acquire(&STREAMS, "a").await.unwrap(), holder.acquire(&STREAMS, "a").await.unwrap()];
    assert!(slots.iter().all(|slot| slot.as_ref().is_ok_and(|slot| !slot.is_empty())));
    server.restart();
    until_up(&holder).await;
    let other = limiter(&server);
    until_up(&other).await;
    assert_eq!(other.peek(&STREAMS, "a").await.unwrap().remaining(), 1);
    // The data is lost without a new connection, so the slots are reported with the next renewal.
    server.must("FLUSHALL");
    let lost = Instant::now();
    while other.peek(&STREAMS, "a").await.unwrap().remaining() != 1 {
        assert!(lost.elapsed() < Duration::from_secs(5), "not reported again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    report(&format!("reported again {:.1?} after the data was lost", lost.elapsed()));
    drop(slots);
}

/// Slots that are taken during an outage count in the process, and are freed there.
#[tokio::test]
async fn slots_of_an_outage_are_counted_in_the_process() {
    let Some(mut server) = server() else { return };
    let limiter = limiter(&server);
    until_up(&limiter).await;
    server.kill();
    let began = Instant::now();
    while !limiter.peek(&STREAMS, "a").await.unwrap().is_degraded() {
        assert!(began.elapsed() < Duration::from_secs(10), "the loss is not noticed");
    }
    let held: Vec<_> = [
        limiter.acquire(&STREAMS, "a").await,
        limiter.acquire(&STREAMS, "a").await,
        limiter.acquire(&STREAMS, "a").await,
    ]
    .into_iter()
    .map(|slot| slot.unwrap().unwrap())
    .collect();
    let busy = limiter.acquire(&STREAMS, "a").await.unwrap().unwrap_err();
    assert!(busy.is_busy() && busy.is_degraded());
    drop(held);
    assert!(limiter.acquire(&STREAMS, "a").await.unwrap().is_ok());
    server.restart();
    until_up(&limiter).await;
    assert_eq!(limiter.peek(&STREAMS, "a").await.unwrap().remaining(), 3);
}

/// The release waits behind calls without a reply, and is sent when the store ends.
#[tokio::test]
async fn a_store_that_is_dropped_reports_freed_slots() {
    let Some(server) = server() else { return };
    let url = server.url();
    let holder = RedisStore::builder(&url).deadline(Duration::from_secs(5)).connections(1).build().unwrap();
    let holder = RateLimiter::new(holder);
    let slot = holder.acquire(&STREAMS, "a").await.unwrap().unwrap();
    let other = limiter_that_is_up(&server).await;
    assert_eq!(other.peek(&STREAMS, "a").await.unwrap().remaining(), 2);
    server.signal("STOP");
    let peeking = holder.clone();
    let mut calls = Vec::new();
    // So many calls may be in flight before a request waits.
    for _ in 0..8 {
        let mut call = Box::pin(peeking.peek(&STREAMS, "b"));
        assert!(futures_util::poll!(&mut call).is_pending());
        calls.push(call);
        // Waits until the call is sent, since a request that is queued before goes with it.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop((slot, calls));
    drop((peeking, holder));
    // A store without a report would end within this time.
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.signal("CONT");
    until_up(&other).await;
    let began = Instant::now();
    while other.peek(&STREAMS, "a").await.unwrap().remaining() != 3 {
        assert!(began.elapsed() < Duration::from_secs(5), "the slot is still taken");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A job keeps its slot for longer than the limiter.
#[tokio::test]
async fn a_slot_that_outlives_its_limiter_is_free_when_it_is_dropped() {
    let Some(server) = server() else { return };
    let other = limiter_that_is_up(&server).await;
    let holder = limiter_that_is_up(&server).await;
    let slot = holder.acquire(&STREAMS, "a").await.unwrap().unwrap();
    drop(holder);
    assert_eq!(other.peek(&STREAMS, "a").await.unwrap().remaining(), 2);
    drop(slot);
    let began = Instant::now();
    while other.peek(&STREAMS, "a").await.unwrap().remaining() != 3 {
        assert!(began.elapsed() < Duration::from_secs(5), "the slot is still taken");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn limiter_that_is_up(server: &Server) -> RateLimiter {
    let limiter = limiter(server);
    until_up(&limiter).await;
    limiter
}

/// In a cluster, a group of several callers is decided caller by caller. A denied group holds no slot, and an
/// admitted group holds all of them.
#[tokio::test]
async fn a_denied_group_of_several_callers_in_a_cluster_holds_no_slot() {
    let Some(cluster) = tests::cluster::cluster(false).await else { return };
    let limiter = || {
        let store = RedisStore::builder(&cluster.url()).deadline(Duration::from_secs(10)).build().unwrap();
        RateLimiter::new(store)
    };
    let (limiter, other) = (limiter(), limiter());
    until_up(&limiter).await;
    let one = Policy::concurrency("one", 1);
    let callers: Vec<String> = (0..8).map(|number| format!("caller-{number}")).collect();
    let group: Vec<Check<'_>> = callers.iter().map(|caller| Check::new(&one, caller)).collect();
    let last = other.acquire(&one, &callers[7]).await.unwrap().unwrap();
    let denied = limiter.check_all(&group).await.unwrap();
    assert!(denied.is_busy() && !denied.outcomes()[0].is_busy());
    for caller in &callers[..7] {
        let began = Instant::now();
        while !other.peek(&one, caller).await.unwrap().is_allowed() {
            assert!(began.elapsed() < Duration::from_secs(5), "{caller}");
        }
    }
    drop(last);
    let began = Instant::now();
    let held = loop {
        let outcome = limiter.check_all(&group).await.unwrap();
        if outcome.is_allowed() {
            break outcome;
        }
        assert!(began.elapsed() < Duration::from_secs(5));
    };
    // Longer than an entry lives without renewals.
    tokio::time::sleep(Duration::from_secs(11)).await;
    for caller in &callers {
        assert!(other.peek(&one, caller).await.unwrap().is_busy(), "{caller}");
    }
    drop(held);
}
