//! What is counted and when: groups, methods, and nothing before the store has decided.

use std::sync::atomic::Ordering;

use actix_web::http::Method;
use actix_web::web::Data;
use actix_web::{HttpResponse, get, post};
use ratelimit_actix::{RateLimiter, rate_limit};
use tests::answer::{get, request, send_raw, statuses};
use tests::payload::with_watched_body;
use tests::store::{fresh, watched};
use tests::{send, service};

#[rate_limit(max = 3)]
#[rate_limit(max = 2, window = "1h", by = global)]
#[get("/stacked")]
#[rate_limit(max = 9, window = "1d", cost = 3)]
async fn stacked() -> &'static str {
    ""
}

#[actix_web::test]
async fn stacked_limits_are_one_call_to_the_store() {
    let (limiter, watch) = watched();
    let app = service!(limiter, stacked);
    assert_eq!(statuses(&app, "/stacked", 1).await, [200]);
    assert_eq!((watch.tries(), watch.calls(), watch.limits()), (1, 1, 3));
}

#[rate_limit(max = 10, key = "answers", window = "1h", by = global)]
#[get("/beside")]
async fn beside() -> &'static str {
    ""
}

/// Another request comes while this one runs, which does not count in the end.
#[rate_limit(max = 10, key = "answers", window = "1h", by = global, count = "successes")]
#[get("/uncounted")]
async fn uncounted(limiter: Data<RateLimiter>) -> HttpResponse {
    assert_eq!(statuses(&service!(limiter.get_ref(), beside), "/beside", 1).await, [200]);
    HttpResponse::NotFound().finish()
}

#[actix_web::test]
async fn after_a_refund_that_failed_the_client_sees_its_quota_as_charged() {
    for (fails, seen) in [(false, 9), (true, 9)] {
        let (limiter, watch) = watched();
        if fails {
            watch.fail_refunds();
        }
        let answer = send(&service!(limiter, uncounted), get("/uncounted")).await;
        let (_, remaining, _) = answer.quota().unwrap();
        assert_eq!((answer.status, remaining, watch.refunds()), (404, seen, 1));
        assert_eq!(watch.peeks(), usize::from(!fails), "what is left is looked at after a refund");
    }
}

#[rate_limit(max = 2, key = "probe", window = "1h")]
#[rate_limit(max = 1, key = "obstacle", by = global)]
#[get("/obstructed")]
async fn obstructed() -> &'static str {
    ""
}

#[rate_limit(max = 2, key = "probe", window = "1h")]
#[get("/probe")]
async fn probe() -> &'static str {
    ""
}

#[actix_web::test]
async fn a_request_that_one_limit_denies_charges_no_other_limit() {
    let app = service!(fresh(), obstructed, probe);
    assert_eq!(statuses(&app, "/obstructed", 5).await, [200, 429, 429, 429, 429]);
    assert_eq!(statuses(&app, "/probe", 2).await, [200, 429]);
}

#[rate_limit(max = 1)]
#[post("/body")]
async fn body(body: String) -> String {
    body
}

#[actix_web::test]
async fn a_body_is_not_read_before_a_slow_store_decides() {
    let (limiter, watch) = watched();
    let app = service!(limiter, body);
    let post = || request(Method::POST, "/body").to_request();

    watch.hold();
    let (passing, polls) = with_watched_body(post());
    let mut answer = Box::pin(send_raw(&app, passing));
    assert!(futures_util::poll!(&mut answer).is_pending());
    assert_eq!(polls.load(Ordering::SeqCst), 0, "read while the store was thinking");
    watch.release();
    assert_eq!(answer.await.body, "hello");
    assert!(polls.load(Ordering::SeqCst) > 0);

    let (denied, polls) = with_watched_body(post());
    let mut answer = Box::pin(send_raw(&app, denied));
    assert!(futures_util::poll!(&mut answer).is_pending());
    watch.release();
    assert_eq!(answer.await.status, 429);
    assert_eq!(polls.load(Ordering::SeqCst), 0, "read although denied");
}

#[actix_web::test]
async fn a_cancelled_request_does_not_block_later_requests() {
    let (limiter, watch) = watched();
    let app = service!(limiter, probe);
    watch.hold();
    let mut abandoned = Box::pin(send(&app, get("/probe")));
    assert!(futures_util::poll!(&mut abandoned).is_pending());
    drop(abandoned);
    watch.release();
    assert_eq!(statuses(&app, "/probe", 1).await, [200]);
}
