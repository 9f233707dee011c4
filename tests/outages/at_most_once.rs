//! At most once: a check that may have been charged is not repeated when its reply is lost or late.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real waits")]

use std::time::{Duration, Instant};

use ratelimit_core::{Algorithm, OnError, Policy, RateLimiter, RedisStore, StoreError};
use tests::cluster::cluster_behind_proxies;
use tests::lane::Lane;
use tests::proxy::{Mode, Proxy};
use tests::redis::{Server, server};

const SECOND: Duration = Duration::from_secs(1);

/// Each algorithm shows a second charge; the log is the one of which every entry can be looked at.
static LOG: Policy = Policy::builder("once")
    .max(1000)
    .window(Duration::from_secs(3600))
    .algorithm(Algorithm::SlidingWindowLog)
    .on_error(OnError::Deny)
    .build();

/// Units that a caller has used, as soon as the store decides again.
async fn used(limiter: &RateLimiter, caller: &str) -> u64 {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        match limiter.peek(&LOG, caller).await {
            Ok(outcome) => return LOG.max() - outcome.remaining(),
            Err(error) => assert!(Instant::now() < end, "{caller}: {error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A limiter whose connections are made again soon.
fn limiter(url: &str) -> RateLimiter {
    // Pings would be disturbed in place of checks.
    let store = RedisStore::builder(url).connect_timeout(SECOND / 10).ping_interval(3600 * SECOND);
    RateLimiter::new(store.deadline(2 * SECOND).build().unwrap())
}

/// Checks as a worker until it has a connection to each server: then they have two clients.
async fn until_reached(limiter: &RateLimiter, servers: &[Server]) {
    let end = Instant::now() + 30 * SECOND;
    for server in servers {
        while server.info("clients", "connected_clients").await < 3 {
            assert!(Instant::now() < end, "a worker without a connection");
            for caller in 0..30u8 {
                let _ = Lane::Worker.check(limiter, &LOG, [caller]).await;
            }
        }
    }
}

/// Loses the answer to one question after another, and counts what was charged for each.
async fn lose_answers(lane: Lane, rounds: u32, limiter: &RateLimiter, servers: &[Server], proxies: &[Proxy]) {
    let (mut unanswered, mut charged) = (0, 0);
    for round in 0..rounds {
        let caller = format!("{lane:?}-{round}");
        // Connected to the node of this caller, which then knows the script.
        assert_eq!(used(limiter, &caller).await, 0);
        if lane == Lane::Worker {
            until_reached(limiter, servers).await;
        }
        let set = |mode| {
            for proxy in proxies {
                proxy.set(mode);
            }
        };
        set(Mode::ResetNext);
        let answer = lane.check(limiter, &LOG, &caller).await;
        set(Mode::Pass);
        let used = used(limiter, &caller).await;
        assert!(used <= 1, "{caller} was charged {used} times for one request, which got {answer:?}");
        unanswered += u32::from(answer.is_err());
        charged += used;
    }
    println!("{lane:?}: {rounds} checks, {unanswered} unanswered, {charged} charged");
    assert!(unanswered > rounds / 2, "hardly any answer was lost");
    assert!(charged > u64::from(rounds / 2), "hardly any of those whose answer was lost had been charged");
}

#[tokio::test]
async fn a_check_whose_reply_is_lost_is_not_repeated() {
    let Some(server) = server() else { return };
    let (proxies, servers) = ([Proxy::before(server.port())], [server]);
    for lane in Lane::BOTH {
        lose_answers(lane, 15, &limiter(&proxies[0].url()), &servers, &proxies).await;
    }
}

#[tokio::test]
async fn a_cluster_check_whose_reply_is_lost_is_not_repeated() {
    let Some(cluster) = cluster_behind_proxies().await else { return };
    for lane in Lane::BOTH {
        // A cluster takes a second to connect to again.
        lose_answers(lane, 6, &limiter(&cluster.url()), &cluster.nodes, &cluster.proxies).await;
    }
}

#[tokio::test]
async fn a_check_whose_reply_is_late_is_charged_once() {
    let Some(server) = server() else { return };
    for lane in Lane::BOTH {
        let limiter = RateLimiter::redis(&server.url()).unwrap();
        lane.until_connected(&limiter).await;
        let caller = format!("{lane:?}");
        // The server knows the script then.
        assert_eq!(used(&limiter, &caller).await, 0);
        server.signal("STOP");
        let mut timeouts = 0;
        // One fewer than open the circuit breaker.
        for _ in 0..2 {
            let answer = lane.check(&limiter, &LOG, &caller).await;
            timeouts += u64::from(matches!(answer, Err(StoreError::Timeout { .. })));
        }
        server.signal("CONT");
        assert_eq!(timeouts, 2, "{lane:?}");
        // The server works off what it has received.
        assert!(tests::within(5 * SECOND, || server.query("PING") == "+PONG"));
        assert_eq!(used(&limiter, &caller).await, 2, "{lane:?}");
    }
}

#[tokio::test]
async fn a_check_for_which_nothing_waits_any_more_is_not_sent_again() {
    let Some(server) = server() else { return };
    for lane in Lane::BOTH {
        let proxy = Proxy::before(server.port());
        let store = RedisStore::builder(&proxy.url()).deadline(30 * SECOND).ping_interval(3600 * SECOND);
        let limiter = RateLimiter::new(store.build().unwrap());
        lane.until_connected(&limiter).await;
        let caller = format!("{lane:?}");
        assert_eq!(used(&limiter, &caller).await, 0);
        // The server does not run the next call, and says so.
        server.must("SCRIPT FLUSH");
        proxy.set(Mode::Hold);
        let check = tokio::spawn({
            let (limiter, caller) = (limiter.clone(), caller.clone());
            async move { lane.check(&limiter, &LOG, &caller).await }
        });
        let end = Instant::now() + 20 * SECOND;
        while proxy.held() == 0 {
            assert!(Instant::now() < end, "no reply");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        check.abort();
        assert!(check.await.unwrap_err().is_cancelled());
        proxy.set(Mode::Pass);
        // When the first of these has its reply, the one before has come, and the second sees what was sent
        // for it.
        for _ in 0..2 {
            let _ = lane.check(&limiter, &LOG, "behind it").await.unwrap();
            assert_eq!(used(&limiter, &caller).await, 0, "{lane:?}");
        }
    }
}
