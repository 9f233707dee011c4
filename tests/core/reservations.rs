//! A reservation that outlives the request that made it, and is of a count that callers share.
#![allow(clippy::unwrap_used, reason = "tests")]

use ratelimit_core::clock::FakeClock;
use ratelimit_core::store::toolkit::owned;
use ratelimit_core::{Check, MemoryStore, Policy, RateLimiter, Timestamp};

#[tokio::test]
async fn an_owned_reservation_of_an_overflow_count_is_not_settled() {
    let clock = FakeClock::at(Timestamp::from_micros(1_000_000));
    let limiter = RateLimiter::new(MemoryStore::with_max_callers(1).with_clock(clock));
    let policy = Policy::builder("k").max(10).build();
    assert!(limiter.check(&policy, "first").await.unwrap().is_allowed());
    // There is no room for more callers, so they share a count.
    let group = [Check::new(&policy, "second").with_cost(4)];
    let reservation = limiter.check_all(&group).await.unwrap().reservation(&group).unwrap().into_owned();
    for actual in [9, 0] {
        limiter.settle(owned(&reservation), actual).await.unwrap();
        assert_eq!(limiter.peek(&policy, "third").await.unwrap().remaining(), 6, "units of others, {actual}");
    }
}
