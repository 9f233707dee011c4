//! The denial cache: a denied caller stays denied without another round trip, exactly until its wait is over.

use std::pin::Pin;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::poll;
use ratelimit_core::clock::FakeClock;
use ratelimit_core::{
    Algorithm, Check, GroupOutcome, OnError, Outcome, Policy, RateLimiter, RedisStore, StoreError, Timestamp,
};
use tests::clock_at_start;
use tests::outage::until_settled;
use tests::proxy::{Mode, Proxy};
use tests::redis::{Server, server};

const MICRO: Duration = Duration::from_micros(1);
const MINUTE: Duration = Duration::from_secs(60);

fn policy(algorithm: Algorithm, max: u64, window_ms: u64) -> Policy {
    let window = Duration::from_millis(window_ms);
    Policy::builder("k").algorithm(algorithm).max(max).window(window).on_error(OnError::Deny).build()
}

/// Whether one unit passes, and the number of script calls that took.
async fn passes(server: &Server, limiter: &RateLimiter, policy: &Policy, caller: &str) -> (bool, u64) {
    let before = server.script_calls().await;
    let outcome = limiter.check(policy, caller).await.unwrap();
    (outcome.is_allowed(), server.script_calls().await - before)
}

#[tokio::test]
async fn only_a_cached_denial_answers_without_the_server() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let limiter = server.limiter_at(&clock);
    for &algorithm in Algorithm::ALL {
        let policy = policy(algorithm, 2, 400);
        let group = [Check::new(&policy, "a")];
        while limiter.check(&policy, "a").await.unwrap().is_allowed() {
            // Until one is denied nothing is known.
            let before = server.script_calls().await;
            assert_eq!(limiter.try_check(&policy, "a").unwrap(), None, "{algorithm}");
            assert_eq!(limiter.try_check_all(&group).unwrap(), None, "{algorithm}");
            assert_eq!(server.script_calls().await, before, "{algorithm}: no call");
        }
        clock.advance(MICRO);
        let again = limiter.check(&policy, "a").await.unwrap();
        assert!(!again.is_allowed(), "{algorithm}");
        assert_eq!(limiter.try_check(&policy, "a").unwrap().as_ref(), Some(&again), "{algorithm}");
        let known = limiter.try_check_all(&group).unwrap().unwrap();
        assert_eq!((known.is_allowed(), known.outcomes()), (false, &[again.clone()][..]), "{algorithm}");
        assert_eq!(limiter.try_check(&policy, "b").unwrap(), None, "{algorithm}: another caller");
        clock.advance(again.retry_after().unwrap());
        assert_eq!(limiter.try_check(&policy, "a").unwrap(), None, "{algorithm}: the wait is over");
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap()
}

#[tokio::test]
async fn a_cached_denial_lives_no_longer_than_configured() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let hourly = policy(Algorithm::SlidingWindowLog, 1, 3_600_000);
    for (longest, caller) in [(Duration::from_secs(1), "a"), (Duration::from_millis(20), "b")] {
        let store = server.builder_at(&clock).denial_cache_ttl(longest).build().unwrap();
        let limiter = RateLimiter::new(store);
        assert!(limiter.check(&hourly, caller).await.unwrap().is_allowed());
        for _ in 0..3 {
            assert_eq!(passes(&server, &limiter, &hourly, caller).await, (false, 1));
            clock.advance(longest.checked_sub(MICRO).unwrap());
            assert_eq!(passes(&server, &limiter, &hourly, caller).await, (false, 0));
            clock.advance(MICRO);
        }
    }
    let uncached = server.uncached_limiter_at(&clock);
    // Once it has answered, its connection has been proved, which is a call as well.
    let _ = uncached.peek(&hourly, "a").await.unwrap();
    for _ in 0..3 {
        assert_eq!(passes(&server, &uncached, &hourly, "a").await, (false, 1), "turned off");
    }
}

#[tokio::test]
async fn a_denial_of_any_cost_is_cached() {
    let Some(server) = server() else { return };
    for &algorithm in Algorithm::ALL {
        let clock = clock_at_start();
        let limiter = server.limiter_at(&clock);
        let ten = policy(algorithm, 10, 60_000);
        let caller = algorithm.as_str();
        assert!(limiter.check_n(&ten, caller, 6).await.unwrap().is_allowed());
        let twice = [Check::new(&ten, caller).with_cost(3), Check::new(&ten, caller).with_cost(2)];
        for group in
            [&[Check::new(&ten, caller).with_cost(5)][..], &[Check::new(&ten, caller).with_cost(11)], &twice]
        {
            let denied = limiter.check_all(group).await.unwrap();
            assert!(!denied.is_allowed(), "{algorithm}");
            let before = server.script_calls().await;
            for _ in 0..20 {
                assert_eq!(limiter.check_all(group).await.unwrap(), denied, "{algorithm}");
            }
            assert_eq!(server.script_calls().await, before, "{algorithm}");
            clock.advance(Duration::from_millis(10));
            let aged = limiter.check_all(group).await.unwrap();
            let wait = |outcome: &GroupOutcome| outcome.retry_after().map(micros);
            assert_eq!(wait(&aged), wait(&denied).map(|wait| wait - 10_000), "{algorithm}");
            assert_eq!(server.script_calls().await, before, "{algorithm}");
        }
    }
}

#[tokio::test]
async fn an_allowed_check_of_this_process_ends_the_cached_denial_of_a_larger_cost() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let limiter = server.limiter_at(&clock);
    let log = policy(Algorithm::SlidingWindowLog, 3, 60_000);
    assert!(limiter.check_n(&log, "a", 2).await.unwrap().is_allowed());
    clock.advance(Duration::from_secs(10));
    let wait = async || limiter.check_n(&log, "a", 3).await.unwrap().retry_after();
    let before = server.script_calls().await;
    assert_eq!(wait().await, Some(Duration::from_secs(50) + MICRO));
    assert!(limiter.check(&log, "a").await.unwrap().is_allowed());
    // The new unit has to leave as well.
    assert_eq!(wait().await, Some(Duration::from_secs(60) + MICRO));
    assert_eq!(server.script_calls().await, before + 3);
}

#[tokio::test]
async fn own_refunds_are_seen_at_once_and_those_of_others_within_a_second() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let (limiter, other) = (server.limiter_at(&clock), server.limiter_at(&clock));
    let log = policy(Algorithm::SlidingWindowLog, 1, 60_000);
    let group = [Check::new(&log, "a")];
    let reservation = limiter.check_all(&group).await.unwrap().reservation(&group).unwrap();
    assert_eq!(passes(&server, &limiter, &log, "a").await, (false, 1));
    limiter.refund(reservation).await.unwrap();
    assert!(limiter.check(&log, "a").await.unwrap().is_allowed(), "given back here");
    assert_eq!(passes(&server, &limiter, &log, "a").await, (false, 1));
    limiter.reset(&log, "a").await.unwrap();
    assert!(limiter.check(&log, "a").await.unwrap().is_allowed(), "reset here");
    assert_eq!(passes(&server, &limiter, &log, "a").await, (false, 1));
    other.reset(&log, "a").await.unwrap();
    assert_eq!(passes(&server, &limiter, &log, "a").await, (false, 0), "reset elsewhere");
    clock.advance(Duration::from_secs(1));
    assert_eq!(passes(&server, &limiter, &log, "a").await, (true, 1));
}

#[tokio::test]
async fn a_dropped_reset_ends_a_cached_denial() {
    let Some(server) = server() else { return };
    let limiter = server.limiter_at(&clock_at_start());
    let log = policy(Algorithm::SlidingWindowLog, 1, 60_000);
    assert!(limiter.check(&log, "a").await.unwrap().is_allowed());
    assert_eq!(passes(&server, &limiter, &log, "a").await, (false, 1));
    let mut reset = Box::pin(limiter.reset(&log, "a"));
    let _ = poll!(reset.as_mut());
    drop(reset);
    // The reset goes on without its future, and ends the cached denial when it is done.
    let forgotten = async {
        while limiter.try_check(&log, "a").unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(MINUTE, forgotten).await.expect("the denial is still cached");
    assert_eq!(passes(&server, &limiter, &log, "a").await, (true, 1));
}

#[tokio::test]
async fn a_turn_ends_a_cached_denial() {
    let Some(server) = server() else { return };
    let limiter = server.limiter_at(&clock_at_start());
    let turns = policy(Algorithm::TokenBucket, 1, 1_000);
    assert!(limiter.check(&turns, "a").await.unwrap().is_allowed());
    for calls in [1, 0] {
        assert_eq!(passes(&server, &limiter, &turns, "a").await, (false, calls));
    }
    let before = server.script_calls().await;
    let mut turn = Box::pin(limiter.wait(&turns, "a", 1, MINUTE));
    while server.script_calls().await == before {
        assert!(poll!(turn.as_mut()).is_pending());
        tokio::task::yield_now().await;
    }
    // Its reply comes behind that of the turn.
    let _ = limiter.peek(&turns, "a").await.unwrap();
    assert!(poll!(turn.as_mut()).is_pending(), "the turn is in a second");
    let denied = limiter.check(&turns, "a").await.unwrap();
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(2)), "behind the turn");
}

/// A limiter behind a proxy, connected, with a denial cache. The proxy then holds only answers to calls.
async fn behind_proxy(server: &Server, clock: &FakeClock) -> (RateLimiter, Proxy) {
    let proxy = Proxy::before(server.port());
    let store =
        RedisStore::builder(&proxy.url()).deadline(MINUTE).ping_interval(60 * MINUTE).clock(clock.clone());
    let limiter = RateLimiter::new(store.denial_cache_ttl(60 * MINUTE).build().unwrap());
    until_settled(&limiter).await;
    (limiter, proxy)
}

/// Polls a request that the server denies, until the proxy holds the answer.
async fn until_held<F: Future<Output = Result<Outcome, StoreError>>>(mut denied: Pin<&mut F>, proxy: &Proxy) {
    proxy.set(Mode::Hold);
    let held = proxy.held();
    while proxy.held() == held {
        assert!(poll!(denied.as_mut()).is_pending(), "the answer is held");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_wait_begins_when_the_check_is_sent_however_late_the_reply_is() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let (limiter, proxy) = behind_proxy(&server, &clock).await;
    for &algorithm in Algorithm::ALL {
        let policy = policy(algorithm, 2, 400);
        assert!(limiter.check_n(&policy, "a", 2).await.unwrap().is_allowed());
        let mut denied = Box::pin(limiter.check(&policy, "a"));
        until_held(denied.as_mut(), &proxy).await;
        clock.advance(Duration::from_millis(3));
        proxy.set(Mode::Pass);
        let denied = denied.await.unwrap();
        let end = denied.at().as_micros() + micros(denied.retry_after().unwrap());
        clock.set(Timestamp::from_micros(end - 1));
        assert_eq!(passes(&server, &limiter, &policy, "a").await, (false, 0), "{algorithm}: known here");
        clock.advance(MICRO);
        assert_eq!(passes(&server, &limiter, &policy, "a").await, (true, 1), "{algorithm}");
    }
}

#[tokio::test]
async fn a_reply_from_before_a_reset_or_refund_is_not_cached() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let (limiter, proxy) = behind_proxy(&server, &clock).await;
    let witness = server.uncached_limiter_at(&clock);
    for (algorithm, resets) in
        Algorithm::ALL.iter().flat_map(|&algorithm| [(algorithm, true), (algorithm, false)])
    {
        let policy = policy(algorithm, 1, 3_600_000);
        let group = [Check::new(&policy, "a")];
        // The server has to know the script of refunds, which would otherwise be sent after an answer that is
        // held.
        limiter.refund(limiter.check_all(&group).await.unwrap().reservation(&group).unwrap()).await.unwrap();
        let reservation = limiter.check_all(&group).await.unwrap().reservation(&group).unwrap();
        let mut denied = Box::pin(limiter.check(&policy, "a"));
        until_held(denied.as_mut(), &proxy).await;
        let mut frees: Pin<Box<dyn Future<Output = _>>> = if resets {
            Box::pin(limiter.reset(&policy, "a"))
        } else {
            Box::pin(limiter.refund(reservation))
        };
        // The server frees the caller while both answers are on their way.
        while witness.peek(&policy, "a").await.unwrap().remaining() == 0 {
            assert!(poll!(frees.as_mut()).is_pending());
        }
        proxy.set(Mode::Pass);
        // The task of the denied request takes its turn after that of the other.
        frees.await.unwrap();
        assert!(!denied.await.unwrap().is_allowed(), "{algorithm}: decided before");
        assert!(limiter.check(&policy, "a").await.unwrap().is_allowed(), "{algorithm}: freed, {resets}");
        limiter.reset(&policy, "a").await.unwrap();
    }
}

#[tokio::test]
async fn a_flood_of_denied_callers_takes_bounded_room_and_frees_no_caller() {
    let Some(server) = server() else { return };
    let limiter = server.limiter_at(&clock_at_start());
    let one = policy(Algorithm::FixedWindow, 1, 3_600_000);
    for passes in [true, false] {
        for first in (0..20_000).step_by(500) {
            let checks = (first..first + 500).map(|i| limiter.check(&one, i.to_string()));
            for outcome in join_all(checks).await {
                assert_eq!(outcome.unwrap().is_allowed(), passes);
            }
        }
    }
    // One at a time, so that each that is not known is a call.
    let before = server.script_calls().await;
    for i in 0..20_000 {
        assert!(!limiter.check(&one, i.to_string()).await.unwrap().is_allowed());
    }
    let known = 20_000 - (server.script_calls().await - before);
    assert!((8_000..=16_000).contains(&known), "{known} of 20,000 known");
}
