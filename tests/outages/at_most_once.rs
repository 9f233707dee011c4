//! At most once: a check that may have been charged is not repeated when its reply is lost or late.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real waits")]

use std::time::{Duration, Instant};

use ratelimit_core::{Algorithm, OnError, Policy, RateLimiter, RedisStore, StoreError};
use tests::cluster::cluster_behind_proxies;
use tests::outage::until_settled;
use tests::proxy::{Mode, Proxy};
use tests::redis::server;

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

/// Loses the answer to one question after another, and counts what was charged for each.
async fn lose_answers(limiter: &RateLimiter, proxies: &[Proxy]) {
    const ROUNDS: u32 = 25;
    let (mut unanswered, mut charged) = (0, 0);
    for round in 0..ROUNDS {
        let caller = format!("caller-{round}");
        // Connected to the node of this caller, which then knows the script.
        assert_eq!(used(limiter, &caller).await, 0);
        let set = |mode| {
            for proxy in proxies {
                proxy.set(mode);
            }
        };
        set(Mode::ResetNext);
        let answer = limiter.check(&LOG, &caller).await;
        set(Mode::Pass);
        let used = used(limiter, &caller).await;
        assert!(used <= 1, "{caller} was charged {used} times for one request, which got {answer:?}");
        unanswered += u32::from(answer.is_err());
        charged += used;
    }
    println!("{ROUNDS} checks, {unanswered} unanswered, {charged} charged");
    assert!(unanswered > ROUNDS / 2, "hardly any answer was lost");
    assert!(charged > u64::from(ROUNDS / 2), "hardly any of those whose answer was lost had been charged");
}

#[tokio::test]
async fn a_check_whose_reply_is_lost_is_not_repeated() {
    let Some(server) = server() else { return };
    let proxy = Proxy::before(server.port());
    lose_answers(&RateLimiter::redis(&proxy.url()).unwrap(), &[proxy]).await;
}

#[tokio::test]
async fn a_cluster_check_whose_reply_is_lost_is_not_repeated() {
    let Some(cluster) = cluster_behind_proxies().await else { return };
    lose_answers(&RateLimiter::redis(&cluster.url()).unwrap(), &cluster.proxies).await;
}

#[tokio::test]
async fn a_check_whose_reply_is_late_is_charged_once() {
    let Some(server) = server() else { return };
    let limiter = RateLimiter::redis(&server.url()).unwrap();
    assert_eq!(used(&limiter, "late").await, 0);
    server.signal("STOP");
    let mut timeouts = 0;
    // One fewer than open the circuit breaker.
    for _ in 0..2 {
        let answer = limiter.check(&LOG, "late").await;
        timeouts += u64::from(matches!(answer, Err(StoreError::Timeout { .. })));
    }
    server.signal("CONT");
    assert_eq!(timeouts, 2);
    // The server works off what it has received.
    assert!(tests::within(Duration::from_secs(5), || server.query("PING") == "+PONG"));
    assert_eq!(used(&limiter, "late").await, 2);
}

#[tokio::test]
async fn a_check_for_which_nothing_waits_any_more_is_not_sent_again() {
    const HOUR: Duration = Duration::from_secs(3600);
    let Some(server) = server() else { return };
    let proxy = Proxy::before(server.port());
    let store = RedisStore::builder(&proxy.url()).deadline(Duration::from_secs(30)).ping_interval(HOUR);
    let limiter = RateLimiter::new(store.build().unwrap());
    until_settled(&limiter).await;
    assert_eq!(used(&limiter, "dropped").await, 0);
    // The server does not run the next call, and says so.
    server.must("SCRIPT FLUSH");
    proxy.set(Mode::Hold);
    let check = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.check(&LOG, "dropped").await }
    });
    let end = Instant::now() + Duration::from_secs(20);
    while proxy.held() == 0 {
        assert!(Instant::now() < end, "no reply");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    check.abort();
    assert!(check.await.unwrap_err().is_cancelled());
    proxy.set(Mode::Pass);
    // When the first of these has its reply, the one before has come, and the second sees what was sent for
    // it.
    for _ in 0..2 {
        assert_eq!(used(&limiter, "dropped").await, 0);
    }
}
