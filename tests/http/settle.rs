//! Settling one limit of a request to its true cost: `Quotas::limit`.

mod streams;

use std::cell::RefCell;
use std::time::Duration;

use actix_web::http::{Method, StatusCode};
use actix_web::test::init_service;
use actix_web::web::{self, Data, Path};
use actix_web::{App, HttpRequest, HttpResponse, Responder, Result, get};
use ratelimit_actix::ratelimit_core::Timestamp;
use ratelimit_actix::ratelimit_core::clock::FakeClock;
use ratelimit_actix::ratelimit_core::{Mode, SettleError, StoreError};
use ratelimit_actix::{
    Algorithm, Limit, OnMissing, Policy, PolicyBuilder, QuotaError, Quotas, RateLimitConfig,
    RateLimitMiddleware, RateLimiter, UsageCounter, caller, rate_limit,
};
use tests::answer::{by, get as from_client, request};
use tests::log::Log;
use tests::store::{START, clocked, fresh, watched};
use tests::{redis, send, service};
use tracing::Level;

fn estimate(req: &HttpRequest) -> u64 {
    req.match_info().query("estimate").parse().unwrap_or_default()
}

/// Charges the first number of the path, and settles to the second.
#[rate_limit(max = 60, window = "1h", name = "requests", by = global, algorithm = "fixed_window")]
#[rate_limit(max = 100, window = "1h", name = "tokens", by = global, cost = with(estimate), algorithm = "token_bucket")]
#[get("/chat/{estimate}/{used}")]
async fn chat(path: Path<(u64, u64)>, quotas: Quotas) -> Result<impl Responder> {
    quotas.limit("tokens")?.settle(path.1).await?;
    Ok(left(&quotas))
}

/// What is left under each limit.
fn left(quotas: &Quotas) -> String {
    let left: Vec<String> = quotas
        .to_vec()
        .iter()
        .map(|quota| format!("{} {}", quota.name(), quota.outcome().remaining()))
        .collect();
    left.join(", ")
}

/// Both directions, with the exact wait for a debt.
async fn settles(limiter: &RateLimiter, clock: &FakeClock) {
    let app = service!(limiter, chat);
    let send_chat = async |estimate, used| send(&app, from_client(&format!("/chat/{estimate}/{used}"))).await;
    let down = send_chat(40, 10).await;
    assert_eq!((down.status, down.body.as_str()), (200, "requests 59, tokens 90"));
    assert_eq!(down.quota().unwrap().1, 59, "the header fields report what is left afterwards");
    let up = send_chat(10, 30).await;
    assert_eq!((up.body.as_str(), up.quota().unwrap().1), ("requests 58, tokens 60", 58));
    assert_eq!(send_chat(5, 5).await.body, "requests 57, tokens 55");
    // 100 more than are left: a debt.
    let overdrawn = send_chat(5, 155).await;
    assert_eq!((overdrawn.body.as_str(), overdrawn.quota().unwrap().1), ("requests 56, tokens 0", 0));
    // 100 for the debt and 10 for the request, at 100 per hour.
    let denied = send_chat(10, 10).await;
    assert_eq!((denied.status, denied.header("retry-after")), (429, Some("3960")));
    clock.advance(Duration::from_secs(3959));
    let denied = send_chat(10, 10).await;
    assert_eq!((denied.status, denied.header("retry-after")), (429, Some("1")));
    clock.advance(Duration::from_secs(1));
    assert_eq!(send_chat(10, 0).await.body, "requests 59, tokens 10", "settled to nothing");
}

#[actix_web::test]
async fn one_limit_is_settled_up_and_down_in_memory() {
    let (limiter, clock) = clocked();
    settles(&limiter, &clock).await;
}

#[actix_web::test]
async fn one_limit_is_settled_up_and_down_in_redis() {
    let Some(server) = redis::server() else { return };
    let clock = FakeClock::at(Timestamp::from_micros(START * 1_000_000));
    settles(&server.limiter_at(&clock), &clock).await;
}

thread_local! {
    /// What a handler has found out.
    static FOUND: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    /// The quotas of the last request, for code that runs after its response.
    static KEPT: RefCell<Option<Quotas>> = const { RefCell::new(None) };
}

fn found() -> Vec<String> {
    FOUND.take()
}

fn note(result: Result<(), impl std::fmt::Display>) {
    FOUND.with_borrow_mut(|found| {
        found.push(result.map_or_else(|error| error.to_string(), |()| "settled".to_owned()));
    });
}

#[rate_limit(max = 100, window = "1h", name = "tokens", by = global, cost = 10)]
#[get("/mistakes")]
async fn mistakes(quotas: Quotas) -> Result<impl Responder> {
    let (first, second) = (quotas.limit("tokens")?, quotas.limit("tokens")?);
    note(quotas.limit("tokns").map(drop));
    note(quotas.limit("tokens")?.settle(1_000_000_000_001).await);
    note(second.settle(30).await);
    note(first.settle(30).await);
    note(quotas.limit("tokens")?.settle(5).await);
    note(quotas.limit("tokens")?.settle_on_drop(UsageCounter::default()).map(drop));
    Ok(left(&quotas))
}

const SETTLED: &str = "the limit `tokens` is settled already; settle a limit at most once for each request";

#[actix_web::test]
async fn mistakes_are_clear_errors_and_charge_nothing_twice() {
    let app = service!(fresh(), mistakes);
    assert_eq!(send(&app, from_client("/mistakes")).await.body, "tokens 70");
    assert_eq!(
        found(),
        [
            "no limit of this request has the name `tokns`; expected one of: `tokens`",
            "at most 1000000000000 units can be settled, not 1000000000001",
            "settled",
            SETTLED,
            SETTLED,
            SETTLED,
        ]
    );
    assert_eq!(send(&app, from_client("/mistakes")).await.body, "tokens 40");
}

#[actix_web::test]
async fn a_wrong_name_is_logged_once_for_each_place_with_the_names_that_exist() {
    #[rate_limit(max = 100, name = "logged", by = global)]
    #[get("/{name}")]
    async fn wrong(name: Path<String>, quotas: Quotas) -> Result<&'static str> {
        let first = quotas.limit(&name);
        let second = quotas.limit("loged");
        first.and(second).map(drop)?;
        Ok("ok")
    }
    let (log, _guard) = Log::of_thread();
    let app = service!(fresh(), wrong);
    for name in ["logged", "of-client-1", "of-client-2"] {
        assert_eq!(send(&app, from_client(&format!("/{name}"))).await.status, 500);
    }
    let lines = log.at(Level::ERROR);
    assert_eq!(lines.len(), 2, "{lines:?}");
    for line in lines {
        assert!(line.contains("settle.rs:") && line.contains("`logged`"), "{line}");
        assert!(!line.contains("of-client") && !line.contains("loged"), "{line}");
    }
}

#[actix_web::test]
async fn a_store_that_fails_leaves_the_limit_settled_with_an_unknown_result() {
    #[rate_limit(max = 100, name = "tokens", cost = 10)]
    #[get("/")]
    async fn handler(quotas: Quotas, watch: Data<tests::store::Watch>) -> Result<&'static str> {
        watch.fail(true);
        let failed = quotas.limit("tokens")?.settle(5).await.unwrap_err();
        assert!(
            matches!(&failed, QuotaError::Limiter(SettleError::Store(StoreError::Unavailable { .. }))),
            "{failed:?}"
        );
        watch.fail(false);
        let again = quotas.limit("tokens")?.settle(5).await.unwrap_err();
        assert!(matches!(again, QuotaError::AlreadySettled { .. }), "{again:?}");
        Err(failed.into())
    }
    let (limiter, watch) = watched();
    let app = App::new().app_data(Data::new(limiter)).app_data(Data::from(watch.clone())).service(handler);
    let answer = send(&init_service(app).await, from_client("/")).await;
    assert_eq!((answer.status, answer.body.as_str(), watch.refunds()), (503, "", 1));
}

#[actix_web::test]
async fn after_a_settlement_of_an_outage_the_client_sees_its_count_and_not_that_of_the_store() {
    #[rate_limit(max = 100, window = "1h", name = "tokens", by = global, cost = 10)]
    #[get("/")]
    async fn handler(quotas: Quotas, watch: Data<tests::store::Watch>) -> Result<String> {
        let decided = left(&quotas);
        watch.fail(false);
        quotas.limit("tokens")?.settle(5).await?;
        Ok(format!("{decided}; {}", left(&quotas)))
    }
    let (limiter, watch) = watched();
    watch.fail(true);
    let app = App::new().app_data(Data::new(limiter)).app_data(Data::from(watch.clone())).service(handler);
    let answer = send(&init_service(app).await, from_client("/")).await;
    assert_eq!((answer.body.as_str(), watch.peeks()), ("tokens 90; tokens 90", 1));
}

#[rate_limit(max = 100, window = "1h", name = "tokens", by = global, cost = 10)]
#[get("/charged/{more}/{used}")]
async fn charged(path: Path<(u64, u64)>, quotas: Quotas) -> Result<impl Responder> {
    quotas.charge_up_to(path.0).await.unwrap();
    quotas.limit("tokens")?.settle(path.1).await?;
    Ok(left(&quotas))
}

#[actix_web::test]
async fn further_charges_are_part_of_what_is_settled() {
    // 10 units before the handler, and more in it.
    for (more, used, left) in
        [(20, 30, 70), (20, 50, 50), (20, 25, 75), (20, 4, 96), (20, 0, 100), (0, 3, 97)]
    {
        let app = service!(fresh(), charged);
        let body = send(&app, from_client(&format!("/charged/{more}/{used}"))).await.body;
        assert_eq!(body, format!("tokens {left}"), "{more} {used}");
    }
    // More than are left: only what was charged is given back.
    let app = service!(fresh(), charged);
    assert_eq!(send(&app, from_client("/charged/500/70")).await.body, "tokens 30");
}

#[actix_web::test]
async fn a_surplus_of_several_charges_is_given_back_to_the_window_of_each() {
    #[rate_limit(max = 100, window = "60s", name = "tokens", by = global, cost = 10, algorithm = "fixed_window")]
    #[get("/")]
    async fn late(quotas: Quotas, clock: Data<FakeClock>) -> Result<impl Responder> {
        clock.advance(Duration::from_secs(60));
        quotas.charge_up_to(5).await.unwrap();
        quotas.limit("tokens")?.settle(1).await?;
        Ok(left(&quotas))
    }
    let (limiter, clock) = clocked();
    let app = App::new().app_data(Data::new(limiter)).app_data(Data::new(clock)).service(late);
    let app = init_service(app).await;
    // The 10 units of the first window do not count any more, and cannot be taken from others in the second.
    assert_eq!(send(&app, from_client("/")).await.body, "tokens 100");
}

#[rate_limit(max = 100, window = "1h", name = "tokens", by = global, cost = 10, count = "failures")]
#[rate_limit(max = 10, window = "1h", name = "attempts", by = global, count = "failures", algorithm = "fixed_window")]
#[rate_limit(max = 20, window = "1h", name = "requests", by = global)]
#[get("/counted/{settled}/{status}")]
async fn counted(path: Path<(String, u16)>, quotas: Quotas) -> Result<impl Responder> {
    if path.0 != "none" {
        quotas.limit(&path.0)?.settle(4).await?;
    }
    KEPT.set(Some(quotas));
    Ok(HttpResponse::build(StatusCode::from_u16(path.1).unwrap()))
}

/// What is left under each limit for the next request, without a trace of it.
#[actix_web::test]
async fn a_settled_limit_is_not_refunded_again() {
    let app = service!(fresh(), counted);
    let mut seen = Vec::new();
    for path in ["tokens/200", "attempts/200", "none/200", "tokens/404", "none/404"] {
        let answer = send(&app, from_client(&format!("/counted/{path}"))).await;
        assert_eq!(answer.status.to_string(), path.split('/').nth(1).unwrap());
        seen.push(left(&KEPT.take().unwrap()));
    }
    assert_eq!(
        seen,
        [
            "tokens 96, attempts 10, requests 19",
            "tokens 96, attempts 6, requests 18",
            "tokens 96, attempts 6, requests 17",
            "tokens 92, attempts 5, requests 16",
            "tokens 82, attempts 4, requests 15",
        ]
    );
}

/// Two limits with one count.
static ONCE: Policy =
    Policy::builder("charge-shared").name("shared").max(100).algorithm(Algorithm::FixedWindow).build();
static AGAIN: Policy =
    Policy::builder("charge-shared").name("again").max(100).algorithm(Algorithm::FixedWindow).build();

/// Charges the first number of the path, as often as the second says. The third is the status of the
/// response.
#[rate_limit(max = 100, window = "1h", name = "rows", by = global, cost = 2, count = "successes")]
#[rate_limit(policy = ONCE, by = global, count = "successes")]
#[rate_limit(policy = AGAIN, by = global, count = "successes")]
#[rate_limit(max = 100, window = "1h", name = "requests", by = global)]
#[get("/charges/{units}/{times}/{status}")]
async fn charges(path: Path<(u64, u64, u16)>, quotas: Quotas, clock: Data<FakeClock>) -> HttpResponse {
    let (units, times, status) = path.into_inner();
    for _ in 0..times {
        // Into the next window, so that each charge counts in a window of its own.
        clock.advance(Duration::from_secs(60));
        quotas.charge_up_to(units).await.unwrap();
    }
    KEPT.set(Some(quotas));
    HttpResponse::build(StatusCode::from_u16(status).unwrap()).finish()
}

/// What is left after each response.
async fn gives_charges_back(limiter: &RateLimiter, clock: FakeClock) {
    let app = App::new().app_data(Data::new(limiter.clone())).app_data(Data::new(clock)).service(charges);
    let app = init_service(app).await;
    let mut seen = Vec::new();
    for path in ["10/1/200", "10/1/500", "0/1/500", "200/1/500", "20/2/500"] {
        send(&app, from_client(&format!("/charges/{path}"))).await;
        seen.push(left(&KEPT.take().unwrap()));
    }
    assert_eq!(
        seen,
        [
            "rows 88, shared 80, again 80, requests 89",
            "rows 88, shared 100, again 100, requests 78",
            "rows 88, shared 100, again 100, requests 77",
            // Of 200 units 50 fit the limits that share a count.
            "rows 88, shared 100, again 100, requests 26",
            // Two further charges, the second as many as are left.
            "rows 88, shared 100, again 100, requests 0",
        ]
    );
}

#[actix_web::test]
async fn a_response_that_does_not_count_gives_back_what_the_handler_charged_in_memory() {
    let (limiter, clock) = clocked();
    gives_charges_back(&limiter, clock).await;
}

#[actix_web::test]
async fn a_response_that_does_not_count_gives_back_what_the_handler_charged_in_redis() {
    let Some(server) = redis::server() else { return };
    let clock = FakeClock::at(Timestamp::from_micros(START * 1_000_000));
    gives_charges_back(&server.limiter_at(&clock), clock).await;
}

#[actix_web::test]
async fn a_refund_that_fails_does_not_keep_the_others_from_being_sent() {
    let (limiter, watch) = watched();
    let app = App::new().app_data(Data::new(limiter)).app_data(Data::new(FakeClock::default()));
    let app = init_service(app.service(charges)).await;
    watch.fail_refunds();
    assert_eq!(send(&app, from_client("/charges/10/2/500")).await.status, 500);
    assert_eq!(watch.refunds(), 3, "of the request, and of both charges of the handler");
}

#[actix_web::test]
async fn a_settled_limit_keeps_its_settlement_when_other_charges_are_given_back() {
    #[rate_limit(max = 100, window = "1h", name = "rows", by = global, count = "successes")]
    #[rate_limit(max = 100, window = "1h", name = "tokens", by = global, count = "successes")]
    #[get("/")]
    async fn partly_settled(quotas: Quotas) -> Result<&'static str> {
        quotas.charge_up_to(10).await.unwrap();
        quotas.limit("tokens")?.settle(4).await?;
        KEPT.set(Some(quotas));
        Err(actix_web::error::ErrorBadGateway("no answer"))
    }
    let app = service!(fresh(), partly_settled);
    let answer = send(&app, from_client("/")).await;
    assert_eq!(answer.status, 502);
    assert_eq!(left(&KEPT.take().unwrap()), "rows 100, tokens 96");
}

#[actix_web::test]
async fn a_refunded_charge_cannot_be_settled_but_a_kept_one_can() {
    let app = service!(fresh(), counted);
    send(&app, from_client("/counted/none/200")).await;
    let quotas = KEPT.take().unwrap();
    note(quotas.limit("tokens").unwrap().settle(4).await);
    note(quotas.limit("requests").unwrap().settle(7).await);
    assert_eq!(
        found(),
        [
            "the charge of the limit `tokens` was refunded, because the response does not count; settle it before \
             the handler returns",
            "settled"
        ]
    );
    assert_eq!(left(&quotas), "tokens 100, attempts 10, requests 13");
}

static DAILY: Policy = Policy::builder("settle-daily").max(1000).window(Duration::from_secs(86_400)).build();
static SKIPPED: Policy = Policy::new("settle-skipped", 10, Duration::from_secs(60));

#[rate_limit(max = 10, name = "own", by = header("x-tenant"), on_missing = "skip")]
#[rate_limit(max = 10, name = "chosen", skip = |req: &HttpRequest| req.headers().contains_key("x-internal"))]
#[actix_web::route("/named", method = "GET", method = "OPTIONS")]
async fn named(quotas: Quotas) -> Result<impl Responder> {
    for name in ["own", "chosen", "settle-daily", "settle-skipped"] {
        quotas.limit(name)?.settle(3).await?;
    }
    note(quotas.limit("other").map(drop));
    Ok(left(&quotas))
}

#[actix_web::test]
async fn limits_of_the_middleware_and_limits_that_do_not_apply_have_names_too() {
    let skipped = Limit::new(&SKIPPED).by(|_| None::<u8>).on_missing(OnMissing::Skip);
    let scope =
        web::scope("").wrap(RateLimitMiddleware::new(Limit::new(&DAILY).by(caller::global)).and(skipped));
    let config = RateLimitConfig::builder().exempt(["198.51.100.1"]).build().unwrap();
    let app = App::new().app_data(Data::new(fresh())).app_data(config).service(scope.service(named));
    let app = init_service(app).await;
    let answer = send(&app, from_client("/named").insert_header(("x-tenant", "a"))).await;
    assert_eq!(answer.body, "settle-daily 997, own 7, chosen 7");
    let skipped = send(&app, from_client("/named").insert_header(("x-internal", "1"))).await;
    assert_eq!(skipped.body, "settle-daily 994");
    assert_eq!(send(&app, by("198.51.100.1:1", "/named")).await.body, "");
    assert_eq!(send(&app, request(Method::OPTIONS, "/named")).await.body, "");
    let names =
        |names: &str| format!("no limit of this request has the name `other`; expected one of: {names}");
    assert_eq!(
        found(),
        [
            names("`settle-daily`, `own`, `chosen`, `settle-skipped`"),
            names("`settle-daily`, `settle-skipped`, `own`, `chosen`"),
            "settled".to_owned(),
            "settled".to_owned(),
        ]
    );
}

/// Two limits with one count. In arguments they would be an error of the compiler.
const SHARED: PolicyBuilder = Policy::builder("settle-shared").max(100).window(Duration::from_secs(3600));
static SMALL: Policy = SHARED.name("small").build();
static LARGE: Policy = SHARED.name("large").build();

/// Two limits with one count, and two with one name.
#[rate_limit(policy = SMALL, by = global)]
#[rate_limit(policy = LARGE, by = global, cost = 10)]
#[rate_limit(max = 50, window = "1h", key = "settle-first", name = "double", by = global)]
#[rate_limit(max = 60, window = "1h", key = "settle-second", name = "double", by = global)]
#[get("/shared")]
async fn shared(quotas: Quotas) -> Result<impl Responder> {
    quotas.limit("small")?.settle(5).await?;
    quotas.limit("large")?.settle(2).await?;
    quotas.limit("double")?.settle(9).await?;
    Ok("ok")
}

#[rate_limit(max = 100, window = "1h", key = "settle-shared", by = global, cost = |_: &HttpRequest| 0)]
#[rate_limit(max = 50, window = "1h", key = "settle-first", by = global, cost = |_: &HttpRequest| 0)]
#[rate_limit(max = 60, window = "1h", key = "settle-second", by = global, cost = |_: &HttpRequest| 0)]
#[get("/left")]
async fn what_is_left(quotas: Quotas) -> String {
    left(&quotas)
}

#[actix_web::test]
async fn limits_with_one_count_are_settled_each_and_of_one_name_the_first() {
    let app = service!(fresh(), shared, what_is_left);
    assert_eq!(send(&app, from_client("/shared")).await.status, 200);
    let left = "settle-shared 93, settle-first 41, settle-second 59";
    assert_eq!(send(&app, from_client("/left")).await.body, left);
}

#[actix_web::test]
async fn of_two_layers_with_a_limit_of_one_name_the_inner_is_settled() {
    #[rate_limit(max = 100, window = "1h", key = "settle-inner", name = "tokens", by = global, cost = 10)]
    #[get("/")]
    async fn inner(quotas: Quotas) -> Result<impl Responder> {
        quotas.limit("tokens")?.settle(4).await?;
        Ok(left(&quotas))
    }
    let outer = Policy::builder("settle-outer").name("tokens").max(1000).build();
    let layer = RateLimitMiddleware::new(Limit::new(outer).by(caller::global).cost(|_| 20));
    let app = App::new().app_data(Data::new(fresh())).service(web::scope("").wrap(layer).service(inner));
    let body = send(&init_service(app).await, from_client("/")).await.body;
    assert_eq!(body, "tokens 980, tokens 96");
}

#[actix_web::test]
async fn a_shadow_limit_is_settled_unless_it_would_deny() {
    #[rate_limit(max = 10, window = "1h", name = "hidden", by = global, cost = 4, mode = "shadow")]
    #[get("/{used}")]
    async fn hidden(used: Path<u64>, quotas: Quotas) -> Result<impl Responder> {
        assert_eq!(quotas.to_vec()[0].policy().mode(), Mode::Shadow);
        quotas.limit("hidden")?.settle(*used).await?;
        Ok(left(&quotas))
    }
    let app = service!(fresh(), hidden);
    let mut seen = Vec::new();
    for used in [3, 5, 1, 1] {
        let answer = send(&app, from_client(&format!("/{used}"))).await;
        assert_eq!(answer.quota(), None);
        seen.push(answer.body);
    }
    // The last two would be denied, and are charged nothing.
    assert_eq!(seen, ["hidden 7", "hidden 2", "hidden 2", "hidden 2"]);
}
