//! Webhooks and other outgoing calls: the service limits itself.

// recipe
use std::time::Duration;

use ratelimit_actix::{Algorithm, Policy, RateLimiter, WaitError};

/// 300 deliveries a minute to each host, evenly: one each 200 ms.
static DELIVERIES: Policy =
    Policy::builder("deliveries").max(300).algorithm(Algorithm::TokenBucket).burst(1).build();

/// After which time to try again, if a delivery would have waited for more than 30 s.
type Later = Option<Duration>;

/// Delivers when it is its turn.
async fn deliver(to: &str, by: &RateLimiter, send: impl AsyncFnOnce()) -> Result<Later, WaitError> {
    let turn = by.wait(&DELIVERIES, to, 1, Duration::from_secs(30)).await?;
    if turn.is_allowed() {
        send().await;
    }
    Ok(turn.retry_after())
}
// end

use std::cell::RefCell;

use futures_util::future::join_all;
use futures_util::poll;

/// Delivers to these hosts, and lets time pass in steps of so many milliseconds. Returns after which of them who was sent to.
async fn sent(hosts: &[&'static str], step: u64) -> (Vec<(u64, &'static str)>, Vec<Option<Duration>>) {
    let (limiter, clock) = tests::store::clocked();
    let (sent, now) = (RefCell::new(Vec::new()), RefCell::new(0));
    let (log, time) = (&sent, &now);
    let deliveries = hosts
        .iter()
        .map(|&host| deliver(host, &limiter, async move || log.borrow_mut().push((*time.borrow(), host))));
    let mut deliveries = Box::pin(join_all(deliveries));
    let mut ended = poll!(deliveries.as_mut());
    while *now.borrow() < 100_000 && ended.is_pending() {
        clock.advance(Duration::from_millis(step));
        *now.borrow_mut() += step;
        ended = poll!(deliveries.as_mut());
    }
    let std::task::Poll::Ready(results) = ended else { panic!("not all were decided") };
    (sent.take(), results.into_iter().map(Result::unwrap).collect())
}

#[actix_web::test]
async fn deliveries_to_a_host_begin_200_ms_apart_in_their_order_and_those_to_others_at_once() {
    let (sent, _) = sent(&["a", "a", "b", "a"], 1).await;
    // A thousandth late, since the clocks of the store and of a process may differ in speed.
    assert_eq!(sent, [(0, "a"), (0, "b"), (201, "a"), (401, "a")]);
}

#[actix_web::test]
async fn a_delivery_that_would_wait_for_more_than_30_s_is_told_when() {
    let (sent, results) = sent(&["a"; 153], 100).await;
    assert_eq!(sent.len(), 151);
    assert!(results[..151].iter().all(Option::is_none));
    assert_eq!(results[151..], [Some(Duration::from_millis(30_200)); 2]);
}
