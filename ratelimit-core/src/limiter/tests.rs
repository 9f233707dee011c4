//! Decisions without awaiting: the same as with a future, and none if a round trip is needed.

use std::time::Duration;

use super::*;
use crate::clock::{FakeClock, Timestamp};
use crate::policy::Algorithm;
use crate::store::memory::MemoryStore;

const MINUTE: Duration = Duration::from_secs(60);

/// A limiter in memory with room for `callers` callers.
fn limiter(clock: &FakeClock, callers: usize) -> RateLimiter {
    RateLimiter::with_memory(MemoryStore::with_max_callers(callers).with_clock(clock.clone()))
}

fn clock() -> FakeClock {
    FakeClock::at(Timestamp::from_micros(1_789_948_800_000_000))
}

fn policies() -> [Policy; 5] {
    let counts = |key, algorithm| Policy::builder(key).max(5).window(MINUTE).algorithm(algorithm);
    [
        counts("fixed", Algorithm::FixedWindow).build(),
        counts("counter", Algorithm::SlidingWindowCounter).build(),
        counts("parts", Algorithm::SlidingWindowCounter).sub_windows(6).build(),
        counts("log", Algorithm::SlidingWindowLog).build(),
        counts("bucket", Algorithm::TokenBucket).burst(7).build(),
    ]
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[test]
fn in_memory_every_decision_is_the_same_without_awaiting() {
    let (policies, clock) = (policies(), clock());
    // The smaller limiter uses overflow counts.
    for callers in [1, 1000] {
        let (awaited, at_once) = (limiter(&clock, callers), limiter(&clock, callers));
        let (mut allowed, mut denied) = (0, 0);
        for step in 0..2000_usize {
            clock.advance(Duration::from_millis((step as u64 * 7919) % 2500));
            let caller = ["a", "b", "c"][step * 31 % 7 % 3];
            let policy = &policies[step % 5];
            let outcome = block_on(awaited.check(policy, caller)).unwrap();
            assert_eq!(at_once.check_now(policy, caller), Some(outcome), "{}, step {step}", policy.key());

            let other = &policies[(step + step / 5) % 5];
            let cost = step as u64 % 3;
            let group = [
                Check::new(policy, caller),
                Check::new(other, "d").with_cost(cost),
                Check::new(other, "d"),
                Check::new(policy, "e"),
            ];
            let group = &group[..step % 5];
            let outcome = block_on(awaited.check_all(group)).unwrap();
            *(if outcome.is_allowed() { &mut allowed } else { &mut denied }) += 1;
            assert_eq!(at_once.check_all_now(group), Some(outcome), "{}, step {step}", policy.key());
        }
        assert!(allowed > 400 && denied > 400, "{allowed} and {denied} of the groups");
    }
}

#[test]
fn a_group_that_is_too_large_is_not_decided() {
    let clock = clock();
    let limiter = limiter(&clock, 1000);
    let policy = Policy::new("k", 1000, MINUTE);
    let group = vec![Check::new(&policy, "a"); MAX_GROUP + 1];
    assert_eq!(limiter.check_all_now(&group), None);
    assert!(matches!(block_on(limiter.check_all(&group)), Err(StoreError::GroupTooLarge { .. })));
    assert_eq!(block_on(limiter.peek(&policy, "a")).unwrap().remaining(), 1000, "nothing was taken");
    assert!(limiter.check_all_now(&group[1..]).is_some_and(|outcome| outcome.is_allowed()));
}

#[test]
fn a_custom_store_never_decides_without_awaiting() {
    let clock = clock();
    let limiter = RateLimiter::with_store(MemoryStore::new().with_clock(clock));
    let policy = Policy::new("k", 1, MINUTE);
    assert_eq!(limiter.check_now(&policy, "a"), None);
    assert_eq!(limiter.check_all_now(&[Check::new(&policy, "a")]), None);
    assert!(block_on(limiter.check(&policy, "a")).unwrap().is_allowed(), "nothing was taken");
    assert_eq!(limiter.check_now(&policy, "a"), None, "denied as it is");
}
