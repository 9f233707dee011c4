//! Shadow limits: what is reported and logged, during an outage too, and what is rejected.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use ratelimit_core::{Algorithm, Check, Decision, MemoryStore, Mode, OnError, Policy, RateLimiter};
use tests::log::Log;
use tests::store::watched_builder;
use tracing::Level;

fn shadow(key: &'static str, max: u64) -> Policy {
    Policy::builder(key).max(max).window(Duration::from_secs(3600)).mode(Mode::Shadow).build()
}

#[tokio::test]
async fn a_limit_that_would_deny_is_logged_once_without_its_caller() {
    let (log, _guard) = Log::of_thread();
    let limiter = RateLimiter::in_memory();
    let (first, second) = (shadow("first", 1), shadow("second", 2));
    for _ in 0..50 {
        let group = [Check::new(&first, "AAAA"), Check::new(&second, "AAAA")];
        assert!(limiter.check_all(&group).await.unwrap().is_allowed());
        assert!(limiter.check(&first, "AAAA").await.unwrap().is_allowed());
        assert!(limiter.try_check(&second, "BBBB").unwrap().unwrap().is_allowed());
    }
    let lines = log.at(Level::INFO);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("first") && lines[1].contains("second"), "{lines:?}");
    assert!(!lines.concat().contains("AAAA"), "{lines:?}");
}

#[tokio::test]
async fn an_outcome_of_a_shadow_limit_admits_and_tells_that_it_would_deny() {
    let limiter = RateLimiter::in_memory();
    let policy = shadow("k", 1);
    let first = limiter.check(&policy, "a").await.unwrap();
    assert!(first.is_shadow() && !first.would_deny());
    let outcome = limiter.check(&policy, "a").await.unwrap();
    assert!(outcome.is_allowed() && outcome.is_shadow() && outcome.would_deny());
    assert_eq!((outcome.decision(), outcome.retry_after()), (Decision::Allowed, None));
    assert!(outcome.next_unit_after().is_some());
    let group = [Check::new(&policy, "a"), Check::new(&policy, "a")];
    let all = limiter.check_all(&group).await.unwrap();
    assert_eq!((all.is_allowed(), all.retry_after()), (true, None));
    assert!(all.reservation(&group).is_none(), "nothing was charged");
    let enforced = Policy::new("enforced", 9, Duration::from_secs(60));
    let group = [Check::new(&policy, "a"), Check::new(&enforced, "a")];
    let mixed = limiter.check_all(&group).await.unwrap();
    let charged: Vec<_> =
        mixed.reservation(&group).unwrap().charges().map(|c| c.check().policy().clone()).collect();
    assert_eq!(charged, [enforced]);
}

#[tokio::test]
async fn a_shadow_limit_without_a_free_slot_is_not_busy() {
    let limiter = RateLimiter::in_memory();
    let shadow = Policy::builder("slots").algorithm(Algorithm::Concurrency).max(1).mode(Mode::Shadow).build();
    let group = [Check::new(&shadow, "a")];
    let held = limiter.check_all(&group).await.unwrap();
    let beyond = limiter.check_all(&group).await.unwrap();
    assert!(!held.outcomes()[0].would_deny() && beyond.outcomes()[0].would_deny());
    assert!(beyond.is_allowed() && !beyond.outcomes()[0].is_busy());
}

#[tokio::test]
async fn a_limiter_in_shadow_denies_nothing() {
    let limiter = RateLimiter::builder(MemoryStore::new()).shadow(true).build();
    let policy = Policy::new("k", 1, Duration::from_secs(60));
    let group = [Check::new(&policy, "a"), Check::new(&policy, "b")];
    for denies in [false, true, true] {
        let outcome = limiter.check_all(&group).await.unwrap();
        assert!(outcome.is_allowed());
        assert!(outcome.outcomes().iter().all(|one| one.is_shadow() && one.would_deny() == denies));
        assert!(limiter.try_check_all(&group).unwrap().unwrap().outcomes()[0].would_deny());
    }
    assert!(limiter.check(&policy, "a").await.unwrap().would_deny());
    assert!(limiter.try_check(&policy, "a").unwrap().unwrap().would_deny());
    assert!(limiter.peek(&policy, "a").await.unwrap().would_deny());
    assert!(!limiter.peek(&policy, "c").await.unwrap().would_deny());
}

#[tokio::test]
async fn a_shadow_limit_admits_during_an_outage_whatever_its_failure_policy() {
    for &on_error in OnError::ALL {
        let (builder, watch) = watched_builder();
        let limiter = builder.build();
        let policy = Policy::builder("k").max(1).on_error(on_error).mode(Mode::Shadow).build();
        watch.fail(true);
        for _ in 0..3 {
            let outcome = limiter.check(&policy, "a").await.unwrap();
            assert!(outcome.is_allowed() && outcome.is_shadow() && outcome.is_degraded(), "{on_error}");
        }
        // The enforced limit of a group decides by its own failure policy.
        let (local, closed) = (
            Policy::builder("local").max(1).build(),
            Policy::builder("closed").on_error(OnError::Deny).build(),
        );
        let mixed = [Check::new(&policy, "a"), Check::new(&local, "a")];
        assert!(limiter.check_all(&mixed).await.unwrap().is_allowed(), "{on_error}");
        assert!(!limiter.check_all(&mixed).await.unwrap().is_allowed(), "{on_error}");
        assert!(limiter.check_all(&[Check::new(&policy, "a"), Check::new(&closed, "a")]).await.is_err());
    }
}
