//! A proxy that loses or repeats a reply once: the replies behind it are those of other calls, until the
//! connection is given up.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real waits")]

use std::time::{Duration, Instant};

use ratelimit_core::{Algorithm, OnError, Policy, RateLimiter, RedisStore};
use tests::lane::Lane;
use tests::outage::SLACK;
use tests::proxy::{Mode, Proxy};
use tests::redis::server;
use tokio::task::JoinSet;

static TEN: Policy = Policy::builder("ten")
    .max(10)
    .window(Duration::from_secs(3600))
    .algorithm(Algorithm::FixedWindow)
    .on_error(OnError::Deny)
    .build();

/// Longest until a shifted connection is noticed: the interval between two pings.
const PING: Duration = Duration::from_secs(1);

/// A limiter behind a proxy, of which a caller is spent, with tasks that keep a call in flight.
async fn busy_limiter(lane: Lane, proxy: &Proxy, tasks: usize) -> (RateLimiter, JoinSet<()>) {
    let store = RedisStore::builder(&proxy.url()).denial_cache_ttl(Duration::ZERO).deadline(20 * PING);
    let limiter = RateLimiter::new(store.build().unwrap());
    for _ in 0..10 {
        assert!(limiter.check(&TEN, "spent").await.unwrap().is_allowed());
    }
    assert!(!limiter.check(&TEN, "spent").await.unwrap().is_allowed());
    lane.until_connected(&limiter).await;
    let mut busy = JoinSet::new();
    for task in 0..tasks {
        let limiter = limiter.clone();
        busy.spawn(async move {
            for number in 0u64.. {
                let _ = lane.check(&limiter, &TEN, format!("busy{task}/{number}")).await;
            }
        });
    }
    (limiter, busy)
}

/// Waits until the connection is another one.
async fn is_replaced(limiter: &RateLimiter, proxy: &Proxy, connections: usize, at: Instant) {
    while proxy.accepted() == connections {
        assert!(at.elapsed() < PING + SLACK, "still the same connection after {:?}", at.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("given up after {:?}", at.elapsed());
    let end = Instant::now() + 20 * PING;
    while !limiter.is_ready() {
        assert!(Instant::now() < end, "never connected again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Each caller gets its own answers.
async fn decides(lane: Lane, limiter: &RateLimiter) {
    for number in 0..200 {
        let spent = lane.check(limiter, &TEN, "spent").await.unwrap();
        let new = lane.check(limiter, &TEN, format!("new{number}")).await.unwrap();
        assert_eq!((spent.is_allowed(), new.is_allowed()), (false, true), "{lane:?}, {number}");
    }
}

#[tokio::test]
async fn a_connection_that_has_lost_or_repeated_a_reply_is_replaced_under_load() {
    let Some(server) = server() else { return };
    // A reply too many is dropped if no call is in flight behind it. Otherwise the next ping tells.
    let modes = [(Mode::LoseNext, true), (Mode::RepeatNext, false)];
    for (lane, (mode, is_lost)) in Lane::BOTH.into_iter().flat_map(|lane| modes.map(|mode| (lane, mode))) {
        let proxy = Proxy::before(server.port());
        server.must("FLUSHALL");
        let (limiter, busy) = busy_limiter(lane, &proxy, 16).await;
        let connections = proxy.accepted();
        proxy.set(mode);
        if is_lost {
            is_replaced(&limiter, &proxy, connections, Instant::now()).await;
        } else {
            tokio::time::sleep(PING + SLACK / 5).await;
        }
        decides(lane, &limiter).await;
        drop(busy);
    }
}
