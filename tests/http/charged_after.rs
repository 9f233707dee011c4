//! Limits that charge after the response: requests whose responses do not count are never denied because of
//! each other, and those whose responses count are.

use std::sync::Arc;
use std::time::Duration;

use actix_web::body::MessageBody;
use actix_web::dev::{Service, ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::middleware::{Next, from_fn};
use actix_web::rt::time::timeout;
use actix_web::test::init_service;
use actix_web::web::{self, Data, Path};
use actix_web::{App, Error, HttpResponse, error, get};
use futures_util::future::{join, join_all};
use futures_util::poll;
use ratelimit_actix::ratelimit_core::clock::FakeClock;
use ratelimit_actix::{
    Limit, Policy, QuotaError, Quotas, RateLimitMiddleware, RateLimiter, Show, UsageCounter, caller,
    concurrency_limit, rate_limit,
};
use tests::answer::{by, get};
use tests::log::Log;
use tests::store::{clocked, fresh, watched};
use tests::{redis, send, service};
use tokio::sync::Barrier;
use tracing::Level;

const MINUTES: Duration = Duration::from_secs(600);
const A_DAY: Duration = Duration::from_secs(86_400);

static KEYS: Policy = Policy::new("after-keys", 20, MINUTES);
static BLOCKING: Policy = Policy::builder("after-blocking").max(20).window(MINUTES).block(MINUTES).build();

/// Wrong keys of an address, around an app: only a 401 counts. A limit with a block charges after by itself.
fn wrong_keys(policy: &Policy) -> RateLimitMiddleware {
    let limit = wrong(policy);
    RateLimitMiddleware::new(if policy.block().is_some() { limit } else { limit.charge_after() })
}

fn wrong(policy: &Policy) -> Limit {
    Limit::new(policy).count(|status| status == StatusCode::UNAUTHORIZED)
}

fn status(status: u16) -> HttpResponse {
    HttpResponse::build(StatusCode::from_u16(status).unwrap()).finish()
}

async fn at_once(path: Path<u16>) -> HttpResponse {
    status(*path)
}

/// Responds when as many requests are in flight as the barrier is for.
async fn together(path: Path<u16>, barrier: Data<Barrier>) -> HttpResponse {
    let all = timeout(Duration::from_secs(30), barrier.wait()).await;
    assert!(all.is_ok(), "requests are denied that should be in flight");
    status(*path)
}

/// An app behind this middleware, in which `/together` responds when so many requests are in flight.
macro_rules! app {
    ($limiter:expr, $middleware:expr, $together:expr) => {
        init_service(
            App::new()
                .app_data(Data::new($limiter))
                .app_data(Data::new(Barrier::new($together)))
                .wrap($middleware)
                .route("/together/{status}", web::get().to(together))
                .route("/{status}", web::get().to(at_once)),
        )
        .await
    };
}

/// The statuses of so many requests at once.
macro_rules! at_once {
    ($app:expr, $path:expr, $number:expr) => {{
        let answers = join_all((0..$number).map(|_| send(&$app, get($path)))).await;
        answers.into_iter().map(|answer| answer.status).collect::<Vec<u16>>()
    }};
}

async fn good_requests_deny_nothing(limiter: impl Fn() -> RateLimiter) {
    for policy in [&KEYS, &BLOCKING] {
        let app = app!(limiter(), wrong_keys(policy), 25);
        assert_eq!(at_once!(app, "/together/200", 25), [200; 25], "{policy:?}");
        assert_eq!(send(&app, get("/200")).await.status, 200, "{policy:?}: no block has begun");
        let answers = at_once!(app, "/401", 20);
        assert_eq!(answers, [401; 20], "{policy:?}: all wrong keys are left");
        let denied = send(&app, get("/200")).await;
        assert_eq!((denied.status, denied.header("retry-after").is_some()), (429, true), "{policy:?}");
        let other = send(&app, by("203.0.113.77:1", "/200")).await;
        assert_eq!(other.status, 200, "{policy:?}: another address");
    }
}

async fn those_in_flight_have_passed(limiter: impl Fn() -> RateLimiter) {
    for policy in [&KEYS, &BLOCKING] {
        let app = app!(limiter(), wrong_keys(policy), 40);
        assert_eq!(at_once!(app, "/together/401", 40), [401; 40], "{policy:?}");
        assert_eq!(at_once!(app, "/200", 5), [429; 5], "{policy:?}: then all are denied");
    }
}

#[actix_web::test]
async fn good_requests_in_flight_deny_nothing_in_memory() {
    good_requests_deny_nothing(fresh).await;
    those_in_flight_have_passed(fresh).await;
}

#[actix_web::test]
async fn good_requests_in_flight_deny_nothing_in_redis() {
    let Some(server) = redis::server() else { return };
    let fresh = || {
        server.must("FLUSHALL");
        server.limiter()
    };
    good_requests_deny_nothing(fresh).await;
    those_in_flight_have_passed(fresh).await;
}

#[actix_web::test]
async fn a_layer_whose_limit_is_skipped_charges_nothing_for_an_outer_one() {
    let outer = RateLimitMiddleware::new(wrong(&KEYS).charge_after().show(Show::Always));
    let inner = RateLimitMiddleware::new(wrong(&BLOCKING).skip(|_| true));
    let scope = web::scope("/inner").wrap(inner).route("/{status}", web::get().to(at_once));
    let app = init_service(App::new().app_data(Data::new(fresh())).wrap(outer).service(scope)).await;
    let answer = send(&app, get("/inner/401")).await;
    assert_eq!(answer.quota().map(|(_, left, _)| left), Some(19), "charged once");
}

/// Two instances of a service share the counts.
#[actix_web::test]
async fn two_processes_deny_what_the_other_has_counted() {
    let Some(server) = redis::server() else { return };
    let [one, other] =
        [app!(server.limiter(), wrong_keys(&KEYS), 1), app!(server.limiter(), wrong_keys(&KEYS), 1)];
    for app in [&one, &other, &one, &other] {
        assert_eq!(at_once!(app, "/401", 5), [401; 5]);
    }
    for app in [&one, &other] {
        assert_eq!(at_once!(app, "/200", 2), [429; 2]);
    }
}

#[actix_web::test]
async fn a_charge_before_bounds_the_requests_in_flight() {
    let barrier = Data::new(Barrier::new(21));
    let app = App::new().app_data(Data::new(fresh())).app_data(barrier.clone());
    let app = app.wrap(RateLimitMiddleware::new(wrong(&KEYS)));
    let app = init_service(app.route("/together/{status}", web::get().to(together))).await;
    let requests = async { at_once!(app, "/together/200", 25) };
    // The test is the last one at the barrier: all requests were decided by then.
    let (statuses, _) = join(requests, barrier.wait()).await;
    assert_eq!(statuses, [[200; 20].as_slice(), &[429; 5]].concat());
}

#[actix_web::test]
async fn a_good_request_takes_one_call_and_a_counted_one_two() {
    let (limiter, watch) = watched();
    let app = app!(limiter, wrong_keys(&KEYS), 1);
    let calls = || (watch.looks(), watch.calls(), watch.refunds(), watch.peeks());
    assert_eq!(send(&app, get("/200")).await.status, 200);
    assert_eq!(calls(), (1, 0, 0, 0));
    assert_eq!(send(&app, get("/401")).await.status, 401);
    assert_eq!(calls(), (2, 1, 0, 0));
}

#[actix_web::test]
async fn a_limit_that_charges_after_shows_itself_where_it_denies() {
    static ONE: Policy = Policy::new("after-shown", 1, MINUTES);
    static WIDE: Policy = Policy::new("after-wide", 1000, MINUTES);
    let by_default = || wrong(&ONE).charge_after();
    for (limit, shown, in_the_end) in [
        (by_default(), [Some(999), Some(998)], (1, 0)),
        (by_default().show(Show::Always), [Some(1), Some(0)], (1, 0)),
        (wrong(&ONE).show(Show::Denied), [Some(999), Some(998)], (1, 0)),
    ] {
        let app = app!(fresh(), RateLimitMiddleware::new(&WIDE).and(limit), 1);
        let mut seen = Vec::new();
        for path in ["/200", "/401"] {
            let answer = send(&app, get(path)).await;
            seen.push(answer.quota().map(|(_, left, _)| left));
        }
        assert_eq!(seen, shown);
        let denied = send(&app, get("/200")).await;
        let quota = denied.quota().map(|(limit, left, _)| (limit, left));
        assert_eq!((denied.status, quota), (429, Some(in_the_end)));
    }
}

#[rate_limit(max = 3, key = "after-requests", window = "1h", by = global)]
#[rate_limit(max = 1, key = "after-failures", window = "1h", count = "failures", charge = "after")]
#[get("/stacked/{status}")]
async fn stacked(path: Path<u16>) -> HttpResponse {
    status(*path)
}

#[rate_limit(max = 3, key = "after-requests", window = "1h", by = global)]
#[get("/rest")]
async fn rest() -> &'static str {
    ""
}

/// A denial by the look leaves the other limits as they are, whether the store decides at once or not.
#[actix_web::test]
async fn what_the_look_denies_charges_no_other_limit() {
    let redis = redis::server();
    let limiters = [Some(fresh()), Some(watched().0), redis.as_ref().map(redis::Server::limiter)];
    for limiter in limiters.into_iter().flatten() {
        let app = service!(limiter.clone(), stacked, rest);
        let mut seen = Vec::new();
        for path in ["/stacked/404", "/stacked/200", "/stacked/200"] {
            let answer = send(&app, get(path)).await;
            seen.push((answer.status, answer.header("x-ratelimit-limit").map(str::to_owned)));
        }
        let shown = |limit: &str| Some(limit.to_owned());
        assert_eq!(seen, [(404, shown("3")), (429, shown("1")), (429, shown("1"))]);
        let left = send(&app, get("/rest")).await.quota().map(|(_, left, _)| left);
        assert_eq!(left, Some(1), "one for the 404, and one for this: {}", limiter.store_kind());
        assert_eq!(send(&app, by("203.0.113.77:1", "/stacked/200")).await.status, 200);
        assert_eq!(send(&app, by("203.0.113.77:1", "/stacked/200")).await.status, 429);
    }
}

#[concurrency_limit(max = 1, key = "after-slots")]
#[rate_limit(max = 1, key = "after-blocking", window = "1h", block = "2h", by = global)]
#[rate_limit(max = 1, key = "after-mixed", window = "1h", count = "failures", charge = "after")]
#[rate_limit(
    max = 1,
    key = "after-shadow",
    window = "1h",
    count = "failures",
    charge = "after",
    mode = "shadow"
)]
#[get("/mixed/{status}")]
async fn mixed(path: Path<u16>) -> HttpResponse {
    status(*path)
}

/// A denial by the look takes no slot and begins no block of another limit, also if the store takes a while.
#[actix_web::test]
async fn what_the_look_denies_takes_no_slot_and_begins_no_block() {
    let redis = redis::server();
    let limiters = [Some(fresh()), Some(watched().0), redis.as_ref().map(redis::Server::limiter)];
    for limiter in limiters.into_iter().flatten() {
        let kind = limiter.store_kind();
        let full = Policy::new("after-mixed", 1, Duration::from_secs(3600));
        let address = caller::ip(&get("/").to_http_request());
        let _ = limiter.check(&full, &address).await.unwrap();
        let app = service!(limiter, mixed);
        for _ in 0..3 {
            assert_eq!(send(&app, get("/mixed/200")).await.status, 429, "{kind}");
        }
        let other = || by("203.0.113.77:1", "/mixed/404");
        assert_eq!(send(&app, other()).await.status, 404, "{kind}: the unit of all is there, and no block");
        assert_eq!(send(&app, other()).await.header("retry-after"), Some("7200"), "{kind}: now it begins");
    }
}

#[rate_limit(max = 9, key = "after-charged", window = "1h")]
#[rate_limit(
    max = 9,
    key = "after-uncharged",
    window = "1h",
    count = "failures",
    charge = "after",
    show = "always"
)]
#[get("/handler")]
async fn handler(quotas: Quotas) -> String {
    let charged = quotas.charge_up_to(3).await.unwrap();
    let settled = quotas.limit("after-uncharged").unwrap().settle(5).await;
    assert!(matches!(settled, Err(QuotaError::ChargedAfter { limit, .. }) if limit == "after-uncharged"));
    let on_drop = quotas.limit("after-uncharged").unwrap().settle_on_drop(UsageCounter::default());
    assert!(matches!(on_drop, Err(QuotaError::ChargedAfter { .. })));
    let left: Vec<u64> = quotas.to_vec().iter().map(|quota| quota.outcome().remaining()).collect();
    format!("{charged} {left:?}")
}

#[actix_web::test]
async fn a_handler_neither_charges_nor_settles_a_limit_that_charges_after() {
    let app = service!(fresh(), handler);
    assert_eq!(send(&app, get("/handler")).await.body, "3 [5, 9]");
}

#[rate_limit(max = 2, key = "after-group", window = "1h", count = "failures", charge = "after")]
#[rate_limit(max = 1, key = "after-narrow", window = "1h", by = global, count = "failures", charge = "after")]
#[rate_limit(max = 9, key = "after-before", window = "1h", count = "successes")]
#[get("/each/{status}")]
async fn each(path: Path<u16>, barrier: Data<Barrier>) -> HttpResponse {
    together(path, barrier).await
}

/// Each limit is charged by itself: one that is full keeps no other from its charge.
#[actix_web::test]
async fn limits_that_charge_after_are_charged_each_by_itself() {
    let limiter = fresh();
    let app = App::new().app_data(Data::new(limiter.clone())).app_data(Data::new(Barrier::new(2)));
    let app = init_service(app.service(each)).await;
    let left = async |key: &'static str, caller: &[u8]| {
        let max = if key == "after-before" { 9 } else { 2 };
        let policy = Policy::new(key, max, Duration::from_secs(3600));
        limiter.peek(&policy, caller).await.unwrap().remaining()
    };
    let answers = join_all([get("/each/404"), get("/each/404")].map(|request| send(&app, request))).await;
    assert!(answers.iter().all(|answer| answer.status == 404));
    let address = caller::ip(&get("/").to_http_request());
    assert_eq!(
        left("after-group", address.as_ref()).await,
        0,
        "the second request found the other limit full"
    );
    assert_eq!(left("after-before", address.as_ref()).await, 9, "both are refunded");
}

#[actix_web::test]
async fn a_request_without_a_response_is_charged_nothing() {
    static ONE: Policy = Policy::new("after-dropped", 1, MINUTES);
    let app = app!(fresh(), wrong_keys(&ONE), 9);
    for _ in 0..3 {
        let mut gone = Box::pin(send(&app, get("/together/401")));
        assert!(poll!(&mut gone).is_pending());
    }
    assert_eq!(send(&app, get("/401")).await.status, 401);
    assert_eq!(send(&app, get("/200")).await.status, 429);
}

async fn fails(_: ServiceRequest, _: Next<impl MessageBody>) -> Result<ServiceResponse, Error> {
    Err(error::ErrorUnauthorized("wrong key"))
}

#[actix_web::test]
async fn an_error_of_an_inner_service_is_charged_by_its_status() {
    static ONE: Policy = Policy::new("after-errors", 1, MINUTES);
    let inner = web::resource("/").wrap(from_fn(fails)).to(async || "never");
    let app = App::new().app_data(Data::new(fresh())).wrap(wrong_keys(&ONE)).service(inner);
    let app = init_service(app).await;
    let failed = app.call(get("/").to_request()).await;
    assert_eq!(failed.unwrap_err().error_response().status(), 401);
    let denied = app.call(get("/").to_request()).await.unwrap();
    assert_eq!(denied.status(), 429);
}

/// The window of the charge is that of the response.
#[actix_web::test]
async fn the_instant_of_the_charge_is_that_of_the_response() {
    let day = Policy::builder("after-day").max(1).calendar(ratelimit_core::policy::Calendar::day()).build();
    let hour = Policy::builder("after-hour")
        .algorithm(ratelimit_actix::Algorithm::FixedWindow)
        .max(1)
        .window(Duration::from_secs(3600))
        .build();
    for policy in [&day, &hour] {
        let (limiter, clock) = clocked();
        let late = async |clock: Data<FakeClock>| {
            // Into the next window.
            clock.advance(A_DAY);
            HttpResponse::Unauthorized().finish()
        };
        let app = App::new().app_data(Data::new(limiter)).app_data(Data::new(clock)).wrap(wrong_keys(policy));
        let app =
            init_service(app.route("/late", web::get().to(late)).route("/{status}", web::get().to(at_once)));
        let app = app.await;
        assert_eq!(send(&app, get("/late")).await.status, 401);
        assert_eq!(
            send(&app, get("/200")).await.status,
            429,
            "{policy:?}: charged in the window of the response"
        );
    }
}

#[actix_web::test]
async fn a_charge_that_the_store_does_not_take_is_counted_in_the_process_or_logged() {
    static LOCAL: Policy = Policy::new("after-local", 1, MINUTES);
    static STRICT: Policy = Policy::builder("after-strict")
        .max(1)
        .window(MINUTES)
        .on_error(ratelimit_actix::OnError::Deny)
        .build();
    for (policy, in_the_outage, line) in [(&LOCAL, 429, false), (&STRICT, 503, true)] {
        let (limiter, watch) = watched();
        let failing = Data::from(Arc::clone(&watch));
        let breaks = async |watch: Data<tests::store::Watch>| {
            watch.fail(true);
            HttpResponse::Unauthorized().finish()
        };
        let app = App::new().app_data(Data::new(limiter)).app_data(failing).wrap(wrong_keys(policy));
        let app = init_service(
            app.route("/breaks", web::get().to(breaks)).route("/{status}", web::get().to(at_once)),
        );
        let app = app.await;
        let (log, _guard) = Log::of_thread();
        assert_eq!(send(&app, get("/breaks")).await.status, 401);
        let is_logged =
            log.at(Level::WARN).iter().any(|line| line.contains("charge after a response failed"));
        assert_eq!(is_logged, line, "{policy:?}");
        assert_eq!(
            send(&app, get("/200")).await.status,
            in_the_outage,
            "{policy:?}: looked at in the process"
        );
        watch.fail(false);
        assert_eq!(send(&app, get("/200")).await.status, 200, "{policy:?}: the store has counted nothing");
    }
}

#[test]
#[should_panic(expected = "only a limit with a count charges after the response")]
fn a_charge_after_needs_a_count() {
    let _ = RateLimitMiddleware::new(Limit::new(&KEYS).charge_after());
}

#[test]
#[should_panic(expected = "a request holds its slot while it runs")]
fn a_concurrency_limit_charges_nothing_after() {
    let _ = RateLimitMiddleware::new(Limit::new(Policy::concurrency("after-slots", 3)).charge_after());
}

#[test]
#[should_panic(expected = "has no lease")]
fn a_limit_that_charges_after_has_no_lease() {
    let leased = Policy::builder("after-leased").lease(Duration::from_millis(100)).build();
    let _ = RateLimitMiddleware::new(wrong(&leased).charge_after());
}
