//! Failure policies over a store that fails on command: what the fallback of each process admits, and what is
//! logged.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::num::NonZeroU32;
use std::time::Duration;

use ratelimit_core::store::toolkit::owned;
use ratelimit_core::{Algorithm, Check, OnError, Policy, RateLimiter};
use tests::log::Log;
use tests::store::watched_builder;
use tracing::Level;

fn policy(algorithm: Algorithm, max: u64) -> Policy {
    Policy::builder("p").algorithm(algorithm).max(max).window(Duration::from_secs(3600)).build()
}

/// One of four processes, whose store is out.
fn one_of_four() -> RateLimiter {
    let (builder, watch) = watched_builder();
    watch.fail(true);
    builder.instances(NonZeroU32::new(4).unwrap()).build()
}

#[tokio::test]
async fn a_burst_is_divided_among_processes() {
    let limiter = one_of_four();
    let bucket = Policy::builder("p").algorithm(Algorithm::TokenBucket).max(4).burst(20);
    let bucket = bucket.window(Duration::from_secs(3600)).build();
    let mut passed = 0;
    while limiter.check(&bucket, "a").await.unwrap().is_allowed() {
        passed += 1;
    }
    assert_eq!(passed, 5);
}

#[tokio::test]
async fn a_cost_above_the_part_of_a_process_is_denied() {
    for &algorithm in Algorithm::ALL {
        // Three for each process.
        let ten = policy(algorithm, 10);
        for (costs, passes) in [(&[3][..], true), (&[1, 2], true), (&[4], false), (&[2, 2], false)] {
            let limiter = one_of_four();
            let group: Vec<Check<'_>> =
                costs.iter().map(|cost| Check::new(&ten, "a").with_cost(*cost)).collect();
            let first = limiter.check_all(&group).await.unwrap();
            assert_eq!(first.is_allowed(), passes, "{algorithm} {costs:?}");
            // When the store is back, they pass.
            let wait = (!passes).then_some(Duration::from_secs(1));
            assert_eq!(first.retry_after(), wait, "{algorithm} {costs:?}");
            // All costs are charged to one count, or none is.
            let unit = limiter.check(&ten, "a").await.unwrap();
            assert_eq!(unit.is_allowed(), !passes, "{algorithm} {costs:?}");
        }
    }
}

#[tokio::test]
async fn the_fallback_blocks_as_the_store_does() {
    for &algorithm in Algorithm::ALL {
        let block = Duration::from_secs(7200);
        let (limiter, ten) = (
            one_of_four(),
            Policy::builder("p").algorithm(algorithm).max(10).window(Duration::from_secs(3600)).block(block),
        );
        let ten = ten.build();
        for _ in 0..3 {
            assert!(limiter.check(&ten, "a").await.unwrap().is_allowed(), "{algorithm}");
        }
        let denied = limiter.check(&ten, "a").await.unwrap();
        assert_eq!((denied.retry_after(), denied.is_degraded()), (Some(block), true), "{algorithm}");
        assert!(limiter.check(&ten, "a").await.unwrap().retry_after().unwrap() <= block, "{algorithm}");
        assert!(limiter.check(&ten, "b").await.unwrap().is_allowed(), "{algorithm}: another caller");
        // The store cannot forget, but the process does.
        limiter.reset(&ten, "a").await.unwrap_err();
        assert!(limiter.check(&ten, "a").await.unwrap().is_allowed(), "{algorithm}");
    }
}

#[tokio::test]
async fn a_settlement_goes_to_the_fallback_count_that_was_charged() {
    for &algorithm in Algorithm::ALL {
        let (limiter, ten) = (one_of_four(), policy(algorithm, 10));
        let group = [Check::new(&ten, "a")];
        let taken = limiter.check_all(&group).await.unwrap().reservation(&group).unwrap();
        limiter.settle(owned(&taken), 2).await.unwrap();
        assert_eq!(limiter.peek(&ten, "a").await.unwrap().remaining(), 1, "{algorithm}: 2 of 3");
        limiter.settle(taken, 8).await.unwrap();
        let denied = limiter.peek(&ten, "a").await.unwrap();
        assert_eq!((denied.is_allowed(), denied.remaining()), (false, 0), "{algorithm}: in debt");
    }
}

#[tokio::test]
async fn as_many_as_fit_are_the_share_of_the_process() {
    for &algorithm in Algorithm::ALL {
        let (limiter, ten) = (one_of_four(), policy(algorithm, 10));
        let open = Policy::builder("open").max(5).on_error(OnError::Allow).build();
        let group = [Check::new(&open, "a"), Check::new(&ten, "a")];
        let (units, outcome) = limiter.check_up_to_all(&group, 8).await.unwrap();
        assert_eq!((units, outcome.is_degraded()), (3, true), "{algorithm}");
        let costs: Vec<(u64, u64)> =
            outcome.outcomes().iter().map(|one| (one.cost(), one.capacity())).collect();
        assert_eq!(costs, [(3, 5), (3, 10)], "{algorithm}");
        let (units, outcome) = limiter.check_up_to_all(&group, 8).await.unwrap();
        assert_eq!((units, outcome.is_allowed()), (0, false), "{algorithm}");
        let (units, _) = limiter.check_up_to_all(&group[..1], 8).await.unwrap();
        assert_eq!(units, 8, "{algorithm}: uncounted");
    }
}

#[tokio::test]
async fn a_refund_goes_to_the_fallback_count_that_was_charged() {
    for &algorithm in Algorithm::ALL {
        let (limiter, ten) = (one_of_four(), policy(algorithm, 10));
        let group = [Check::new(&ten, "a").with_cost(2)];
        let taken = limiter.check_all(&group).await.unwrap();
        limiter.refund(taken.reservation(&group).unwrap()).await.unwrap();
        assert_eq!(limiter.peek(&ten, "a").await.unwrap().remaining(), 3, "{algorithm}");
    }
}

#[tokio::test]
async fn reset_clears_the_fallback_count() {
    for &algorithm in Algorithm::ALL {
        let (builder, watch) = watched_builder();
        let (limiter, two) = (builder.build(), policy(algorithm, 2));
        watch.fail(true);
        while limiter.check(&two, "a").await.unwrap().is_allowed() {}
        watch.fail(false);
        limiter.reset(&two, "a").await.unwrap();
        watch.fail(true);
        let outcome = limiter.check(&two, "a").await.unwrap();
        assert_eq!((outcome.is_allowed(), outcome.remaining()), (true, 1), "{algorithm}");
    }
}

#[tokio::test]
async fn an_outage_is_logged_once_when_it_begins_and_once_when_it_ends() {
    let (log, _guard) = Log::of_thread();
    let (builder, watch) = watched_builder();
    let (limiter, policy) = (builder.build(), policy(Algorithm::FixedWindow, 1_000_000));
    let group = [Check::new(&policy, "a")];
    let taken = limiter.check_all(&group).await.unwrap();
    watch.fail(true);
    for _ in 0..1_000 {
        assert!(limiter.check(&policy, "a").await.unwrap().is_degraded());
    }
    assert_eq!((log.at(Level::ERROR).len(), log.at(Level::WARN).len()), (1, 0), "{:?}", log.at(Level::ERROR));
    // Longer than the second after the last failure.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    watch.settle_by_held_units();
    limiter.settle(taken.reservation(&group).unwrap(), 2).await.unwrap();
    assert_eq!(log.at(Level::WARN), [] as [String; 0], "a settlement by held units is no reply");
    watch.fail(false);
    #[allow(clippy::disallowed_methods, reason = "a deadline")]
    let end = std::time::Instant::now() + Duration::from_secs(30);
    // It ends a second after the last failure.
    while log.at(Level::WARN).is_empty() {
        #[allow(clippy::disallowed_methods, reason = "a deadline")]
        let now = std::time::Instant::now();
        assert!(now < end, "the end of the outage is not logged");
        assert!(!limiter.check(&policy, "a").await.unwrap().is_degraded());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for _ in 0..1_000 {
        assert!(!limiter.check(&policy, "a").await.unwrap().is_degraded());
    }
    assert_eq!((log.at(Level::ERROR).len(), log.at(Level::WARN).len()), (1, 1), "{:?}", log.at(Level::WARN));
}

#[tokio::test]
async fn failed_refunds_are_logged_at_most_once_a_second() {
    let (log, _guard) = Log::of_thread();
    let (builder, watch) = watched_builder();
    let (limiter, policy) = (builder.build(), policy(Algorithm::FixedWindow, 1_000));
    let group = [Check::new(&policy, "a")];
    let mut taken = Vec::new();
    for _ in 0..500 {
        taken.push(limiter.check_all(&group).await.unwrap());
    }
    watch.fail(true);
    #[allow(clippy::disallowed_methods, reason = "bounds the number of lines")]
    let begun = std::time::Instant::now();
    for taken in &taken {
        assert!(limiter.refund(taken.reservation(&group).unwrap()).await.is_err());
    }
    let lines = log.at(Level::WARN);
    assert!(lines.iter().all(|line| line.contains("a refund failed")), "{lines:?}");
    let most = 1 + usize::try_from(begun.elapsed().as_secs()).unwrap();
    assert!((1..=most).contains(&lines.len()), "{lines:?}");
}

/// Where the future is dropped that waits for the turn.
#[tokio::test]
async fn a_turn_that_is_not_given_back_is_logged() {
    let (log, _guard) = Log::of_thread();
    let (builder, watch) = watched_builder();
    let (limiter, policy) = (builder.build(), policy(Algorithm::TokenBucket, 1));
    let an_hour = Duration::from_secs(3600);
    assert!(limiter.check(&policy, "a").await.unwrap().is_allowed());
    let mut turn = Box::pin(limiter.wait(&policy, "a", 1, an_hour));
    assert!(tokio::time::timeout(Duration::ZERO, &mut turn).await.is_err(), "it waits for an hour");
    watch.fail(true);
    drop(turn);
    let lines = log.at(Level::WARN);
    assert!(lines.len() == 1 && lines[0].contains("a refund failed"), "{lines:?}");
}

#[tokio::test]
async fn a_store_is_asked_once_whether_it_can_decide_without_awaiting() {
    let (builder, watch) = watched_builder();
    let (limiter, policy) = (builder.build(), policy(Algorithm::FixedWindow, 10));
    let _ = limiter.check(&policy, "a").await.unwrap();
    let _ = limiter.check_all(&[Check::new(&policy, "a")]).await.unwrap();
    assert_eq!((watch.tries(), watch.calls()), (2, 2));
}
