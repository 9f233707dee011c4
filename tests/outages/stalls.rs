//! Stalls of this process, which are none of Redis: a worker that computes, a process that stands still, a
//! clock that a test pauses.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "real time is what is tested")]

use std::env;
use std::process::{self, Command};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use actix_web::http::StatusCode;
use actix_web::rt::System;
use actix_web::test::{TestRequest, call_service, init_service, read_body};
use actix_web::{App, HttpRequest, HttpResponse, get, web};
use futures_util::future::join_all;
use ratelimit_actix::{Limit, Quota, Quotas, RateLimitMiddleware, rate_limit};
use ratelimit_core::{Algorithm, Check, OnError, Policy, RateLimiter, RedisStore, RedisStoreBuilder};
use tests::client;
use tests::log::Log;
use tests::own_process::{in_own_process, in_own_process_with};
use tests::proxy::{Mode, Proxy};
use tests::redis::{Server, server};
use tests::service::Service;
use tests::within;
use tracing::Level;

const MILLIS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
const MAX: u64 = 1_000_000;

/// The window is long: units would come back at its end, during a test.
const fn policy(key: &'static str) -> Policy {
    let builder = Policy::builder(key).max(MAX).window(Duration::from_secs(365 * 24 * 3600));
    builder.algorithm(Algorithm::FixedWindow).on_error(OnError::Deny).build()
}

// These limits fail closed: a decision without Redis is an error.
static AROUND: Policy = policy("around");
static INSIDE: Policy = policy("inside");
static TURNS: Policy = Policy::builder("turns")
    .algorithm(Algorithm::TokenBucket)
    .max(MAX)
    .window(HOUR)
    .on_error(OnError::Deny)
    .build();

fn everyone(_: &HttpRequest) -> &'static str {
    "everyone"
}

/// A server that persists, so that no warning about limits of a day or more is logged.
fn server_that_persists() -> Option<Server> {
    let server = server()?;
    server.must("CONFIG SET save '3600 1'");
    Some(server)
}

fn connected(store: RedisStoreBuilder) -> RateLimiter {
    let limiter = RateLimiter::new(store.build().unwrap());
    assert!(within(30_000 * MILLIS, || limiter.is_ready()), "no connection");
    limiter
}

// ---- A worker that computes -------------------------------------------------------------------------------

#[rate_limit(policy = INSIDE, by = global)]
#[get("/checked")]
async fn checked() -> &'static str {
    "passed"
}

#[rate_limit(policy = INSIDE, by = global)]
#[get("/settled")]
async fn settled(quotas: Quotas) -> actix_web::Result<&'static str> {
    quotas.limit("inside")?.settle(3).await?;
    Ok("passed")
}

#[rate_limit(policy = INSIDE, by = global)]
#[get("/charged")]
async fn charged(quotas: Quotas) -> HttpResponse {
    match quotas.charge_up_to(2).await {
        Ok(2) => HttpResponse::Ok().body("passed"),
        other => HttpResponse::InternalServerError().body(format!("{other:?}")),
    }
}

#[rate_limit(policy = INSIDE, by = global, count = "failures")]
#[get("/refunded")]
async fn refunded() -> &'static str {
    "passed"
}

#[rate_limit(policy = INSIDE, by = global)]
#[get("/waited")]
async fn waited(limiter: web::Data<RateLimiter>) -> HttpResponse {
    match limiter.wait(&TURNS, "everyone", 1, HOUR).await {
        Ok(outcome) if outcome.is_allowed() => HttpResponse::Ok().body("passed"),
        other => HttpResponse::InternalServerError().body(format!("{other:?}")),
    }
}

/// What each limit has counted, with this request.
#[rate_limit(policy = INSIDE, by = global)]
#[get("/counts")]
async fn counts(quotas: Quotas) -> String {
    let count = |quota: Quota| format!("{} {}", quota.name(), MAX - quota.outcome().remaining());
    quotas.to_vec().into_iter().map(count).collect::<Vec<_>>().join(", ")
}

/// Longer than the deadline, as a password hash takes on a worker.
#[get("/compute")]
async fn compute(began: web::Data<Sender<()>>, time: web::Data<Duration>) -> &'static str {
    began.send(()).unwrap();
    thread::sleep(**time);
    "computed"
}

/// One worker. The reply to a request's first call is handed over while the worker is busy with another
/// request, for longer than the deadline.
#[test]
fn a_worker_that_computes_for_another_request_uses_up_no_deadline() {
    in_own_process(|| {
        let Some(server) = server_that_persists() else { return };
        let (deadline, computes) = (1_000 * MILLIS, 1_500 * MILLIS);
        let log = Log::of_process();
        let proxy = Proxy::before(server.port());
        let limiter = connected(RedisStore::builder(&proxy.url()).deadline(deadline));
        let (began, begins) = channel::<()>();
        let (began, time) = (web::Data::new(began), web::Data::new(computes));
        let shared = web::Data::new(limiter.clone());
        let service = Service::start(move |config| {
            let around = RateLimitMiddleware::new(Limit::new(&AROUND).by(everyone));
            let inner = web::scope("/around").wrap(around).service(checked).service(settled).service(charged);
            let inner = inner.service(refunded).service(waited).service(counts);
            config.app_data(shared.clone()).app_data(began.clone()).app_data(time.clone());
            config.service(compute).service(inner);
            config.service(checked).service(settled).service(charged).service(refunded).service(waited);
        });
        let address = service.address;
        let (mut around, mut inside) = (0, 0);
        for scope in ["", "/around"] {
            for (path, units) in
                [("/checked", 1), ("/settled", 3), ("/charged", 3), ("/refunded", 0), ("/waited", 1)]
            {
                let held = proxy.held();
                proxy.set(Mode::Hold);
                let path = format!("{scope}{path}");
                let asked = path.clone();
                let request = thread::spawn(move || client::get(address, &asked, &[]));
                assert!(within(10_000 * MILLIS, || proxy.held() > held), "{path}: no call");
                let other = thread::spawn(move || client::get(address, "/compute", &[]));
                begins.recv_timeout(10_000 * MILLIS).unwrap();
                proxy.set(Mode::Pass);
                let reply = request.join().unwrap();
                assert_eq!(other.join().unwrap().status, 200);
                assert_eq!((reply.status, reply.body.as_str()), (200, "passed"), "{path}");
                inside += units;
                // The handler charges 2 units to all limits.
                around += if scope.is_empty() { 0 } else { 1 + 2 * u64::from(path.ends_with("charged")) };
                let left = reply.header("x-ratelimit-remaining").map(|left| left.parse::<u64>().unwrap());
                assert_eq!(left, Some(MAX - inside.max(around)), "{path}: what the client sees");
            }
        }
        let counted = client::get(address, "/around/counts", &[]).body;
        assert_eq!(counted, format!("around {}, inside {}", around + 1, inside + 1));
        assert_eq!(log.at(Level::WARN), [] as [String; 0]);
        assert_eq!(log.at(Level::ERROR), [] as [String; 0]);
    });
}

// ---- A process that stands still --------------------------------------------------------------------------

/// Stops this process for a while, as when a container is frozen or a machine is moved.
fn stand_still(time: Duration) {
    let pid = process::id();
    let script = format!("kill -STOP {pid}; sleep {}; kill -CONT {pid}", time.as_secs_f64());
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
}

/// The process stands still several times, each time with 60 requests in flight. Redis replies to them
/// meanwhile, within the deadline.
#[test]
fn a_reply_that_came_while_the_process_stood_still_is_no_timeout() {
    const URL: &str = "RATELIMIT_TESTS_STALLS";
    const STOPS: u64 = 5;
    let mut held = None;
    let variables = || {
        // Not in the process that stands still.
        let server = server_that_persists()?;
        let proxy = Proxy::before(server.port());
        proxy.set(Mode::Distance(80 * MILLIS));
        let variables = vec![(URL.to_owned(), proxy.url().into())];
        held = Some((server, proxy));
        Some(variables)
    };
    in_own_process_with(variables, || {
        let log = Log::of_process();
        let limiter = connected(RedisStore::builder(&env::var(URL).unwrap()).deadline(800 * MILLIS));
        System::new().block_on(async {
            let around = RateLimitMiddleware::new(Limit::new(&AROUND).by(everyone));
            let app = App::new().app_data(web::Data::new(limiter.clone())).wrap(around);
            let app = init_service(app.service(settled).service(refunded).service(counts)).await;
            let ask = async |path| {
                let start = Instant::now();
                let response = call_service(&app, TestRequest::get().uri(path).to_request()).await;
                (path, response.status(), start.elapsed())
            };
            // The server knows the scripts then.
            let _ = (ask("/settled").await, ask("/refunded").await);
            let mut stood_still = 0;
            for round in 0..STOPS {
                let requests = (0..60).map(|i| ask(["/settled", "/refunded"][i % 2]));
                let stop = thread::spawn(|| {
                    thread::sleep(45 * MILLIS);
                    stand_still(1_000 * MILLIS);
                });
                for (path, status, took) in join_all(requests).await {
                    let log = [log.at(Level::WARN), log.at(Level::ERROR)];
                    assert_eq!(status, StatusCode::OK, "round {round}: {path} after {took:?}: {log:?}");
                    stood_still += u32::from(took > 1_000 * MILLIS);
                }
                stop.join().unwrap();
            }
            assert!(stood_still > 0, "no request was in flight");
            let response = call_service(&app, TestRequest::get().uri("/counts").to_request()).await;
            // Of each two requests, one is settled to 3 units, and one is given back.
            let pairs = 1 + 30 * STOPS;
            let expected = format!("around {}, inside {}", 2 * pairs + 1, 3 * pairs + 1);
            assert_eq!(read_body(response).await, expected);
        });
        assert_eq!(log.at(Level::WARN), [] as [String; 0]);
        assert_eq!(log.at(Level::ERROR), [] as [String; 0]);
    });
    drop(held);
}

// ---- A clock that a test pauses ---------------------------------------------------------------------------

/// The clock stands still in the runtime of the test, not on the thread of the store.
#[tokio::test(start_paused = true)]
async fn a_paused_clock_of_tokio_decides_nothing_and_ends_no_wait_for_redis() {
    let Some(server) = server() else { return };
    let deadline = 3_000 * MILLIS;
    let limiter = connected(RedisStore::builder(&server.url()).deadline(deadline));
    // The paused clock is behind by more than a deadline from now on.
    thread::sleep(deadline + 500 * MILLIS);
    let around = RateLimitMiddleware::new(Limit::new(&AROUND).by(everyone));
    let app = App::new().app_data(web::Data::new(limiter.clone())).wrap(around);
    let app = init_service(app.service(settled).service(charged).service(refunded)).await;
    for round in 0..200 {
        let group = [Check::new(&INSIDE, "core").with_cost(2)];
        let outcome = limiter.check_all(&group).await.unwrap();
        limiter.refund(outcome.reservation(&group).unwrap()).await.unwrap();
        assert!(limiter.wait(&TURNS, "core", 1, HOUR).await.unwrap().is_allowed(), "{round}");
        let path = ["/settled", "/charged", "/refunded"][round % 3];
        let response = call_service(&app, TestRequest::get().uri(path).to_request()).await;
        assert_eq!(response.status(), StatusCode::OK, "{round}: {path}");
    }
    assert_eq!(limiter.peek(&INSIDE, "core").await.unwrap().remaining(), MAX);
}
