//! Settlements and as many units as fit on a server: calls, stored bytes, and what other programs may leave
//! there.

use std::time::Duration;

use ratelimit_core::clock::Clock;
use ratelimit_core::{Algorithm, Check, OnError, Policy, RateLimiter, SettleError, StoreError, Timestamp};
use redis::AsyncCommands;
use tests::clock_at_start;
use tests::redis::server;

use super::{only_key, policy};

const MINUTE: Duration = Duration::from_secs(60);

/// Charges one unit and settles it to `actual`.
async fn settle(limiter: &RateLimiter, policy: &Policy, actual: u64) {
    let group = [Check::new(policy, "a")];
    let reservation = limiter.check_all(&group).await.unwrap().reservation(&group).unwrap();
    limiter.settle(reservation, actual).await.unwrap();
}

#[tokio::test]
async fn a_settlement_and_as_many_as_fit_are_one_call_each() {
    let Some(server) = server() else { return };
    let limiter = server.uncached_limiter_at(&clock_at_start());
    for &algorithm in Algorithm::ALL {
        let one = policy(algorithm, 10, MINUTE);
        let other = Policy::builder("other").max(100).on_error(OnError::Deny).build();
        let group = [Check::new(&one, "a"), Check::new(&other, "a")];
        // The scripts are known then.
        let mut reservation = limiter.check_all(&group).await.unwrap().reservation(&group).unwrap();
        let _ = limiter.peek(&one, "a").await.unwrap();
        let before = server.script_calls().await;
        let (units, _) = limiter.check_up_to_all(&group, 50).await.unwrap();
        assert_eq!((units, server.script_calls().await - before), (9, 1), "{algorithm}");
        let (units, _) = limiter.check_up_to(&one, "a", 50).await.unwrap();
        assert_eq!((units, server.script_calls().await - before), (0, 2), "{algorithm}");
        let settled = reservation.take_limit("k").unwrap();
        limiter.settle(settled, 30).await.unwrap();
        assert_eq!(server.script_calls().await - before, 3, "{algorithm}");
        let _: () = redis::cmd("FLUSHALL").query_async(&mut server.raw().await).await.unwrap();
    }
}

#[tokio::test]
async fn a_bucket_in_debt_is_stored_with_its_settlement_for_as_long_as_it_matters() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let limiter = server.uncached_limiter_at(&clock);
    let mut raw = server.raw().await;
    let bucket = Policy::builder("k").algorithm(Algorithm::TokenBucket).max(3).window(400 * 60 * MINUTE);
    let bucket = bucket.on_error(OnError::Deny).build();
    settle(&limiter, &bucket, 5).await;
    let key = only_key(&server).await;
    let value: Vec<u8> = raw.get(&key).await.unwrap();
    let (now, tat) = (clock.now().as_micros(), clock.now().as_micros() + 400 * 3_600_000_000 / 3 * 5);
    let expected =
        [&b"e"[..], &tat.to_le_bytes()[..7], &0u64.to_le_bytes()[..5], &now.to_le_bytes()[..7]].concat();
    assert_eq!(value, expected);
    let left: i64 = raw.pttl(&key).await.unwrap();
    let needed = 400 * 3_600_000 / 3 * 5;
    assert!((needed..needed + 1_002).contains(&left), "{left} ms of {needed} ms");
    // Paid, and charged again, it is a bucket like any other.
    clock.advance(300 * 60 * MINUTE);
    assert!(!limiter.check(&bucket, "a").await.unwrap().is_allowed());
    clock.advance(101 * 60 * MINUTE);
    assert!(limiter.check(&bucket, "a").await.unwrap().is_allowed());
    assert_eq!(raw.get::<_, Vec<u8>>(&key).await.unwrap().len(), 13);
}

#[tokio::test]
async fn a_bucket_that_is_empty_once_the_clock_goes_back_is_stored_without_its_settlement() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let limiter = server.uncached_limiter_at(&clock);
    let mut raw = server.raw().await;
    let bucket = policy(Algorithm::TokenBucket, 3, MINUTE);
    settle(&limiter, &bucket, 3).await;
    let key = only_key(&server).await;
    assert_eq!(raw.get::<_, Vec<u8>>(&key).await.unwrap().len(), 20);
    clock.set(Timestamp::from_micros(clock.now().as_micros() - 1_000_000));
    assert!(!limiter.check(&bucket, "a").await.unwrap().is_allowed());
    // In place of the settlement it has the second by which ends of charges stay later than the bucket is
    // full.
    let value: Vec<u8> = raw.get(&key).await.unwrap();
    assert_eq!((value[0], &value[13..]), (b'r', &1_000_000u64.to_le_bytes()[..7]));
    clock.advance(2 * MINUTE);
    assert!(limiter.check(&bucket, "a").await.unwrap().is_allowed());
    assert_eq!(raw.get::<_, Vec<u8>>(&key).await.unwrap().len(), 13, "time has paid it");
}

/// A key lives for a full refill at most, so its charges may be later than the bucket that follows.
#[tokio::test]
async fn a_charge_gives_nothing_back_to_the_bucket_after_a_full_refill() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let limiter = server.uncached_limiter_at(&clock);
    let bucket = policy(Algorithm::TokenBucket, 10, Duration::from_secs(1));
    let charge = async |cost| {
        let group = [Check::new(&bucket, "a").with_cost(cost)];
        limiter.check_all(&group).await.unwrap().reservation(&group).expect("passes").into_owned()
    };
    let first = charge(5).await;
    let second = charge(5).await;
    limiter.refund(first).await.unwrap();
    let third = charge(5).await;
    limiter.refund(second).await.unwrap();
    clock.advance(Duration::from_secs(1));
    let _: () = server.raw().await.del(only_key(&server).await).await.unwrap();
    let _ = charge(10).await;
    limiter.refund(third).await.unwrap();
    assert_eq!(limiter.peek(&bucket, "a").await.unwrap().remaining(), 0);
}

/// What is malformed in other ways, `tampered.rs` tries at random.
#[tokio::test]
async fn a_debt_of_more_than_a_year_is_no_state() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let limiter = server.uncached_limiter_at(&clock);
    let bucket = policy(Algorithm::TokenBucket, 3, MINUTE);
    let (now, year) = (clock.now().as_micros(), 366 * 86_400_000_000);
    let _ = limiter.check(&bucket, "a").await.unwrap();
    let key = only_key(&server).await;
    for (tat, thirds, is_state) in [(now + year, 0, true), (now + year, 1, false), (now + year + 1, 0, false)]
    {
        let numbers = [&tat.to_le_bytes()[..7], &u64::to_le_bytes(thirds)[..5], &now.to_le_bytes()[..7]];
        let _: () = server.raw().await.set(&key, [&b"d"[..], &numbers.concat()].concat()).await.unwrap();
        let answer = limiter.check(&bucket, "a").await;
        let is_corrupt = matches!(answer, Err(StoreError::CorruptState { .. }));
        assert_eq!(is_corrupt, !is_state, "{tat} and {thirds} thirds: {answer:?}");
        // A corrupt key gets a life, in which it is lost.
        let lives: i64 = server.raw().await.pttl(&key).await.unwrap();
        assert!(is_state || lives > 0, "{tat} and {thirds} thirds: lives {lives} ms");
    }
}

#[tokio::test]
async fn a_corrupt_state_cannot_be_settled() {
    let Some(server) = server() else { return };
    let limiter = server.uncached_limiter_at(&clock_at_start());
    let mut raw = server.raw().await;
    for &algorithm in Algorithm::ALL {
        let policy = policy(algorithm, 10, MINUTE);
        let group = [Check::new(&policy, "a")];
        let reservation = limiter.check_all(&group).await.unwrap().reservation(&group).unwrap();
        let _: () = raw.set(only_key(&server).await, "not ours").await.unwrap();
        let error = limiter.settle(reservation, 5).await.unwrap_err();
        assert!(
            matches!(error, SettleError::Store(StoreError::CorruptState { .. })),
            "{algorithm}: {error:?}"
        );
        let _: () = redis::cmd("FLUSHALL").query_async(&mut raw).await.unwrap();
    }
}

#[tokio::test]
async fn a_settlement_ends_a_cached_denial() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let limiter = server.limiter_at(&clock);
    for algorithm in [Algorithm::TokenBucket, Algorithm::SlidingWindowCounter] {
        let policy = policy(algorithm, 1, MINUTE);
        let group = [Check::new(&policy, "a")];
        let reservation = limiter.check_all(&group).await.unwrap().reservation(&group).unwrap();
        let before = limiter.check(&policy, "a").await.unwrap().retry_after();
        assert!(limiter.try_check(&policy, "a").unwrap().is_some(), "{algorithm}: cached");
        limiter.settle(reservation, 3).await.unwrap();
        assert!(limiter.try_check(&policy, "a").unwrap().is_none(), "{algorithm}: decided by the server");
        let after = limiter.check(&policy, "a").await.unwrap().retry_after();
        assert!(before < after, "{algorithm}: {before:?} {after:?}");
        let _: () = redis::cmd("FLUSHALL").query_async(&mut server.raw().await).await.unwrap();
    }
}
