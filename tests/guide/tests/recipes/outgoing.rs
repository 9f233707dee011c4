//! Webhooks and other outgoing calls: the service limits itself.

// recipe
use std::time::Duration;

use ratelimit_actix::{Algorithm, Policy, RateLimiter, StoreError};

/// Five deliveries a second to each host, evenly.
static DELIVERIES: Policy = Policy::builder("deliveries")
    .max(5)
    .window(Duration::from_secs(1))
    .algorithm(Algorithm::TokenBucket)
    .build();

/// Waits until one more delivery to this host may begin.
async fn permit(limiter: &RateLimiter, host: &str) -> Result<(), StoreError> {
    while let Some(wait) = limiter.check(&DELIVERIES, host).await?.retry_after() {
        actix_web::rt::time::sleep(wait).await;
    }
    Ok(())
}
// end

#[actix_web::test]
async fn the_sixth_delivery_of_a_second_waits() {
    use futures_util::FutureExt;
    let (limiter, clock) = tests::store::clocked();
    for _ in 0..5 {
        assert!(permit(&limiter, "a.example").now_or_never().is_some());
    }
    assert!(permit(&limiter, "a.example").now_or_never().is_none());
    assert!(permit(&limiter, "b.example").now_or_never().is_some());
    clock.advance(Duration::from_millis(200));
    assert!(permit(&limiter, "a.example").now_or_never().is_some());
}
