//! Webhooks and other outgoing calls: the service limits itself.

// recipe
use std::error::Error;

use ratelimit_actix::{Algorithm, Decision, Policy, RateLimiter};

/// 300 deliveries a minute to each host, evenly: one each 200 ms.
static DELIVERIES: Policy =
    Policy::builder("deliveries").max(300).algorithm(Algorithm::TokenBucket).burst(1).build();

async fn permit(limiter: &RateLimiter, host: &str, cost: u64) -> Result<(), Box<dyn Error>> {
    loop {
        match limiter.check_n(&DELIVERIES, host, cost).await?.decision() {
            Decision::Allowed => return Ok(()),
            Decision::Denied { retry_after: Some(wait) } => actix_web::rt::time::sleep(wait).await,
            _ => return Err(format!("a cost of {cost} never passes").into()),
        }
    }
}
// end

use std::time::Duration;

#[actix_web::test]
async fn a_delivery_begins_200_ms_after_the_one_before() {
    use futures_util::FutureExt;
    let (limiter, clock) = tests::store::clocked();
    let begins = |host| permit(&limiter, host, 1).now_or_never().is_some();
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
    let begun = (0..10).filter(|_| permit(&limiter, "a.example", 1).now_or_never().is_some());
    assert_eq!(begun.count(), 1);
}

#[actix_web::test]
async fn a_delivery_that_no_wait_permits_is_an_error() {
    use futures_util::FutureExt;
    let (limiter, _clock) = tests::store::clocked();
    let error = permit(&limiter, "a.example", 2).now_or_never().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "a cost of 2 never passes");
}
