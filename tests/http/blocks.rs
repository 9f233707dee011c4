//! `block`: the first denial blocks a caller, for the time that the attribute says.

use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::test::{TestRequest, init_service};
use actix_web::web::{self, Data, Path};
use actix_web::{App, HttpResponse, Responder, post};
use ratelimit_actix::core::clock::FakeClock;
use ratelimit_actix::{Limit, Policy, RateLimitMiddleware, RateLimiter, Timestamp, rate_limit};
use tests::answer::{CLIENT, by, get};
use tests::store::{START, clocked};
use tests::{redis, send, service};

/// Ten wrong passwords per minute, then ten minutes without an attempt.
#[rate_limit(max = 10, window = "1m", count = "failures", block = "10m", key = "login:{name}")]
#[post("/login/{name}/{password}")]
async fn login(path: Path<(String, String)>) -> impl Responder {
    let status = if path.1 == "right" { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
    HttpResponse::build(status)
}

/// An attempt to log in.
fn attempt(name: &str, password: &str) -> TestRequest {
    TestRequest::post().uri(&format!("/login/{name}/{password}")).peer_addr(CLIENT.parse().unwrap())
}

/// The eleventh wrong password within a minute blocks the account; right ones are counted out again.
async fn brute_force(limiter: &RateLimiter, clock: &FakeClock) {
    let app = service!(limiter, login);
    for _ in 0..20 {
        let right = send(&app, attempt("alice", "right")).await;
        assert_eq!((right.status, right.quota().unwrap().1), (200, 10), "a right password does not count");
    }
    for left in (0..10).rev() {
        let wrong = send(&app, attempt("alice", "guess")).await;
        assert_eq!((wrong.status, wrong.quota().unwrap().1), (401, left));
    }
    let begin = send(&app, attempt("alice", "guess")).await;
    assert_eq!((begin.status, begin.header("retry-after")), (429, Some("600")));
    assert!(begin.body.contains("Try again in 600 seconds."), "{}", begin.body);
    // Neither more attempts nor the right password change the end of the block.
    for (after, password, wait) in [(1, "guess", "599"), (300, "right", "299"), (298, "guess", "1")] {
        clock.advance(Duration::from_secs(after));
        let blocked = send(&app, attempt("alice", password)).await;
        assert_eq!((blocked.status, blocked.header("retry-after")), (429, Some(wait)));
    }
    // Other accounts are not blocked.
    assert_eq!(send(&app, attempt("bob", "right")).await.status, 200);
    clock.advance(Duration::from_secs(1));
    let after = send(&app, attempt("alice", "guess")).await;
    assert_eq!((after.status, after.quota().unwrap().1), (401, 9), "the full quota is back");
    let right = send(&app, attempt("alice", "right")).await;
    assert_eq!((right.status, right.quota().unwrap().1), (200, 9));
}

#[actix_web::test]
async fn the_eleventh_wrong_password_blocks_an_account_in_memory() {
    let (limiter, clock) = clocked();
    brute_force(&limiter, &clock).await;
}

#[actix_web::test]
async fn the_eleventh_wrong_password_blocks_an_account_in_redis() {
    let Some(server) = redis::server() else { return };
    let clock = FakeClock::at(Timestamp::from_micros(START * 1_000_000));
    brute_force(&server.limiter_at(&clock), &clock).await;
}

static BLOCKING: Policy = Policy::builder("blocking").max(1).block(Duration::from_secs(3600)).build();

#[actix_web::test]
async fn the_middleware_takes_the_block_of_its_policy() {
    let (limiter, clock) = clocked();
    let scope = web::scope("/scope").wrap(RateLimitMiddleware::new(Limit::new(&BLOCKING)));
    let scope = scope.route("/free", web::get().to(async || "ok"));
    let app = init_service(App::new().app_data(Data::new(limiter)).service(scope)).await;
    let mut seen = Vec::new();
    for wait in [0, 0, 3599, 1] {
        clock.advance(Duration::from_secs(wait));
        let answer = send(&app, get("/scope/free")).await;
        seen.push((answer.status, answer.header("retry-after").map(str::to_owned)));
    }
    let denied = |wait: &str| (429, Some(wait.to_owned()));
    assert_eq!(seen, [(200, None), denied("3600"), denied("1"), (200, None)]);
    assert_eq!(send(&app, by("192.0.2.9:1", "/scope/free")).await.status, 200);
}
