//! Tests with the fake clock.

use actix_web::App;
use actix_web::test::{TestRequest, call_service, init_service};

#[ratelimit_actix::rate_limit(max = 1, window = "1h")]
#[actix_web::get("/")]
async fn index() -> &'static str {
    "ok"
}

// recipe
use ratelimit_actix::{MemoryStore, RateLimiter, core::clock::FakeClock};
use std::time::Duration;

#[actix_web::test]
async fn two_windows_later_the_client_passes_again() {
    let clock = FakeClock::default();
    let limiter = RateLimiter::new(MemoryStore::new().with_clock(clock.clone()));
    let app = init_service(App::new().app_data(limiter).service(index)).await;
    let get = || TestRequest::get().uri("/").peer_addr(([192, 0, 2, 1], 1).into()).to_request();
    assert_eq!(call_service(&app, get()).await.status(), 200);
    assert_eq!(call_service(&app, get()).await.status(), 429);
    clock.advance(Duration::from_secs(2 * 3600));
    assert_eq!(call_service(&app, get()).await.status(), 200);
}
// end
