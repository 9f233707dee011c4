//! Waiting on a server: calls, stored bytes, batches, a cluster-safe refund, and the order over several
//! processes.

use std::io::{BufRead, Read};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use ratelimit_core::clock::{Clock, FakeClock};
use ratelimit_core::{Algorithm, Check, OnError, Policy, RateLimiter, RedisStore};
use redis::AsyncCommands;
use tests::clock_at_start;
use tests::outage::until_settled;
use tests::program::Program;
use tests::proxy::{Mode, Proxy};
use tests::redis::{Server, server};

use super::only_key;

const SECOND: Duration = Duration::from_secs(1);

/// A turn each second.
fn turns() -> Policy {
    let bucket = Policy::builder("turns").algorithm(Algorithm::TokenBucket).max(1).window(SECOND);
    bucket.on_error(OnError::Deny).build()
}

/// Takes turns, and lets the clock pass them: when each is due.
async fn due_after<'a>(
    limiter: &RateLimiter,
    clock: &FakeClock,
    callers: impl IntoIterator<Item = &'a str>,
    server: &Server,
) -> Vec<u64> {
    let policy = turns();
    let waits = callers.into_iter().map(|caller| limiter.wait(&policy, caller, 1, 100 * SECOND));
    let mut waits = Box::pin(join_all(waits));
    let before = server.script_calls().await;
    assert!(waits.as_mut().now_or_never().is_none());
    while server.script_calls().await == before {
        tokio::task::yield_now().await;
    }
    // The replies are on their way at most, and sleep from the instant at which the clock stands then.
    let decided = async { limiter.peek(&policy, "last").await.unwrap() };
    let _ = decided.await;
    assert!(waits.as_mut().now_or_never().is_none());
    clock.advance(1_000 * SECOND);
    let outcomes = waits.await;
    outcomes.into_iter().map(|outcome| outcome.unwrap().due_after().as_secs()).collect()
}

#[tokio::test]
async fn waits_in_one_batch_are_due_in_their_order() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let limiter = server.uncached_limiter_at(&clock);
    let _ = limiter.wait(&turns(), "warm-up", 1, SECOND).await.unwrap();
    let callers = (0..60).map(|number| if number % 3 == 2 { "b" } else { "a" });
    let due = due_after(&limiter, &clock, callers, &server).await;
    let expected: Vec<u64> =
        (0..60).map(|number| if number % 3 == 2 { number / 3 } else { number - number / 3 }).collect();
    assert_eq!(due, expected);
}

#[tokio::test]
async fn a_turn_is_one_call_and_stored_as_a_bucket_in_debt() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let limiter = server.uncached_limiter_at(&clock);
    let mut raw = server.raw().await;
    let policy = turns();
    let _ = limiter.wait(&policy, "a", 1, SECOND).await.unwrap();
    let key = only_key(&server).await;
    assert_eq!(raw.get::<_, Vec<u8>>(&key).await.unwrap().len(), 13, "a free turn is a check");
    let before = server.script_calls().await;
    let mut turn = Box::pin(limiter.wait(&policy, "a", 1, SECOND));
    assert!(turn.as_mut().now_or_never().is_none());
    let (now, second) = (clock.now().as_micros(), 1_000_000);
    let expected = [
        &b"d"[..],
        &(now + 2 * second).to_le_bytes()[..7],
        &0u64.to_le_bytes()[..5],
        &now.to_le_bytes()[..7],
    ]
    .concat();
    while server.script_calls().await == before {
        tokio::task::yield_now().await;
    }
    assert_eq!(raw.get::<_, Vec<u8>>(&key).await.unwrap(), expected);
    assert_eq!(server.script_calls().await - before, 1);
}

#[tokio::test]
async fn a_corrupt_state_is_an_error_and_no_turn() {
    let Some(server) = server() else { return };
    let limiter = server.uncached_limiter_at(&clock_at_start());
    let policy = turns();
    let _ = limiter.wait(&policy, "a", 1, SECOND).await.unwrap();
    let _: () = server.raw().await.set(only_key(&server).await, "x").await.unwrap();
    let error = limiter.wait(&policy, "a", 1, SECOND).await.unwrap_err();
    assert!(error.to_string().contains("corrupt state"), "{error}");
}

#[tokio::test]
async fn a_turn_of_a_future_that_is_dropped_in_flight_goes_back() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let limiter = server.uncached_limiter_at(&clock);
    let policy = turns();
    let _ = limiter.wait(&policy, "warm-up", 1, SECOND).await.unwrap();
    for caller in ["passes", "waits"] {
        if caller == "waits" {
            assert!(limiter.check(&policy, caller).await.unwrap().is_allowed());
        }
        let full = limiter.peek(&policy, caller).await.unwrap().reset_after();
        let _: () =
            redis::cmd("CLIENT").arg("PAUSE").arg(50).query_async(&mut server.raw().await).await.unwrap();
        let wait = limiter.wait(&policy, caller, 1, 100 * SECOND);
        assert!(wait.now_or_never().is_none(), "in flight");
        // A peek comes behind the wait. The refund may take two calls, because the server does not know its
        // script.
        let gone_back = async { while limiter.peek(&policy, caller).await.unwrap().reset_after() != full {} };
        tokio::time::timeout(10 * SECOND, gone_back).await.expect(caller);
    }
}

#[tokio::test]
async fn a_denied_wait_that_is_dropped_in_flight_gives_nothing_back() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let proxy = Proxy::before(server.port());
    let store = RedisStore::builder(&proxy.url()).deadline(Duration::from_secs(10)).clock(clock.clone());
    let store = store.denial_cache_ttl(Duration::ZERO).ping_interval(Duration::from_secs(3600));
    let limiter = RateLimiter::builder(store.build().unwrap()).clock(clock.clone()).build();
    until_settled(&limiter).await;
    let policy = turns();
    // The server knows the scripts then.
    let _ = limiter.wait(&policy, "warm-up", 1, SECOND).await.unwrap();
    let group = [Check::new(&policy, "a")];
    let outcome = limiter.check_all(&group).await.unwrap();
    limiter.refund(outcome.reservation(&group).unwrap()).await.unwrap();
    assert!(limiter.check(&policy, "a").await.unwrap().is_allowed());
    let full = limiter.peek(&policy, "a").await.unwrap().reset_after();
    let calls = server.script_calls().await;
    proxy.set(Mode::Hold);
    let mut denied = Box::pin(limiter.wait(&policy, "a", 1, Duration::ZERO));
    assert!(denied.as_mut().now_or_never().is_none());
    while server.script_calls().await == calls {
        tokio::task::yield_now().await;
    }
    drop(denied);
    proxy.set(Mode::Pass);
    // The first peek comes behind the wait, the others behind what its reply leads to.
    for _ in 0..3 {
        assert_eq!(limiter.peek(&policy, "a").await.unwrap().reset_after(), full);
    }
}

/// Of each turn of a waiting process when it was decided, due and begun.
fn turns_of(mut waiter: Program) -> Vec<[u64; 3]> {
    let lines = waiter.output.by_ref().lines().map(Result::unwrap);
    let turns = lines.map(|line| {
        let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        numbers.try_into().unwrap()
    });
    let turns = turns.collect();
    waiter.wait();
    turns
}

#[test]
fn turns_of_three_processes_are_due_in_the_order_of_the_server() {
    const WAITS: u32 = 40;
    let Some(server) = server() else { return };
    let arguments = [server.url(), WAITS.to_string()];
    let start = |_| Program::start(env!("CARGO_BIN_EXE_waiter"), &arguments);
    let mut waiters: Vec<Program> = (0..3).map(start).collect();
    for waiter in &mut waiters {
        waiter.tell("go");
    }
    let mut turns: Vec<[u64; 3]> = waiters.into_iter().flat_map(turns_of).collect();
    turns.sort_unstable_by_key(|turn| turn[1]);
    assert_eq!(turns.len(), 3 * WAITS as usize);
    for pair in turns.windows(2) {
        let [[before, due_before, _], [at, due, _]] = pair else { unreachable!("two") };
        assert!(before <= at, "due in the order of the decisions: {pair:?}");
        assert!(due - due_before >= 5_000, "one each 5 ms: {pair:?}");
    }
    for [at, due, began] in &turns {
        assert!(at <= due && due <= began, "no process begins early: {at} {due} {began}");
    }
}
