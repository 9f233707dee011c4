//! Webhooks and other outgoing calls: the service limits itself.

// recipe
use std::time::Duration;

use ratelimit_actix::{Algorithm, Policy, RateLimiter, StoreError};

/// Five deliveries a second to each host, evenly.
static DELIVERIES: Policy = Policy::builder("deliveries")
    .max(5)
    .window(Duration::from_secs(1))
    .algorithm(Algorithm::TokenBucket)
    .burst(1)
    .build();

async fn permit(limiter: &RateLimiter, host: &str) -> Result<(), StoreError> {
    while let Some(wait) = limiter.check(&DELIVERIES, host).await?.retry_after() {
        actix_web::rt::time::sleep(wait).await;
    }
    Ok(())
}
// end

#[actix_web::test]
async fn a_delivery_begins_200_ms_after_the_one_before() {
    use futures_util::FutureExt;
    let (limiter, clock) = tests::store::clocked();
    let begins = |host| permit(&limiter, host).now_or_never().is_some();
    for _ in 0..7 {
        assert!(begins("a.example"));
        assert!(!begins("a.example"));
        clock.advance(Duration::from_millis(199));
        assert!(!begins("a.example"));
        clock.advance(Duration::from_millis(1));
    }
    assert!(begins("b.example"));
}

#[actix_web::test]
async fn a_host_that_was_idle_gets_no_burst() {
    use futures_util::FutureExt;
    let (limiter, clock) = tests::store::clocked();
    clock.advance(Duration::from_secs(3600));
    let begun = (0..10).filter(|_| permit(&limiter, "a.example").now_or_never().is_some());
    assert_eq!(begun.count(), 1);
}
