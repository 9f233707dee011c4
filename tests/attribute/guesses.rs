//! An extractor of one limit fails: of the other limits of the handler those by address are judged and
//! charged all the same, so that guesses are limited, and no others, so that strangers use up nothing of
//! others.

use std::future::{Ready, ready};
use std::net::IpAddr;
use std::pin::pin;

use actix_web::dev::{Payload, Service as _};
use actix_web::error::ErrorUnauthorized;
use actix_web::http::{Method, StatusCode};
use actix_web::web::Query;
use actix_web::{
    App, Error, FromRequest, HttpMessage as _, HttpRequest, HttpResponse, get, post, test::TestRequest, web,
};
use ratelimit_actix::{Principal, caller, concurrency_limit, rate_limit};
use tests::answer::{by, get as from_client};
use tests::log::Log;
use tests::store::{fresh, watched};
use tests::{send, service};
use tracing::Level;

/// The verified owner of a token; only `right` is one.
struct Claims(String);

impl FromRequest for Claims {
    type Error = Error;
    type Future = Ready<Result<Self, Error>>;

    fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
        let token = req.headers().get("x-token").and_then(|token| token.to_str().ok());
        ready(match token {
            Some("right") => Ok(Self("owner".to_owned())),
            _ => Err(ErrorUnauthorized("wrong token")),
        })
    }
}

fn guess(path: &str) -> TestRequest {
    from_client(path).insert_header(("x-token", "wrong"))
}

fn right(path: &str) -> TestRequest {
    by("198.51.100.1:1", path).insert_header(("x-token", "right"))
}

/// Status, and units left of the tightest limit, of a number of equal requests.
macro_rules! seen {
    ($app:expr, $number:expr, $request:expr) => {{
        let mut seen = Vec::new();
        for _ in 0..$number {
            let answer = send(&$app, $request).await;
            seen.push((answer.status, answer.quota().map(|(_, left, _)| left)));
        }
        seen
    }};
}

#[rate_limit(max = 100, by = |claims: Claims| claims.0)]
#[rate_limit(max = 3, by = ip)]
#[get("/guess")]
async fn guessed(claims: Claims) -> String {
    claims.0
}

#[actix_web::test]
async fn who_guesses_tokens_is_limited_by_address() {
    let (limiter, watch) = watched();
    let app = service!(limiter, guessed);
    let expected =
        [(401, Some(2)), (401, Some(1)), (401, Some(0)), (429, Some(0)), (429, Some(0)), (429, Some(0))];
    assert_eq!(seen!(app, 6, guess("/guess")), expected);
    assert_eq!((watch.calls(), watch.limits()), (6, 6), "one call with one limit for each");
    let denied = send(&app, guess("/guess")).await;
    assert!(denied.header("retry-after").is_some());
    assert!(denied.error.is_some_and(|error| error.starts_with("RateLimited")));
    // Nothing was charged to the owner, and both limits are charged for the owner's own requests.
    assert_eq!(send(&app, right("/guess")).await.status, 200);
    assert_eq!(watch.limits(), 9);
}

#[rate_limit(max = 100, by = |claims: Claims| claims.0)]
#[rate_limit(max = 2, by = ip, count = "failures", key = "wrong-tokens")]
#[get("/failures")]
async fn failures(_claims: Claims) -> &'static str {
    "ok"
}

#[rate_limit(max = 2, by = ip, count = "successes", key = "right-tokens")]
#[rate_limit(max = 100, by = |claims: Claims| claims.0)]
#[get("/successes")]
async fn successes(_claims: Claims) -> &'static str {
    "ok"
}

#[actix_web::test]
async fn the_error_of_the_extractor_counts_as_a_failure() {
    let app = service!(fresh(), failures, successes);
    let owner = || from_client("/failures").insert_header(("x-token", "right"));
    assert_eq!(seen!(app, 3, owner()), [(200, Some(2)); 3], "given back");
    assert_eq!(seen!(app, 3, guess("/failures")), [(401, Some(1)), (401, Some(0)), (429, Some(0))]);
    assert_eq!(seen!(app, 3, guess("/successes")), [(401, Some(2)); 3]);
}

#[rate_limit(max = 100, by = |claims: Claims| claims.0)]
#[rate_limit(max = 9, by = ip, key = "others-wide")]
#[rate_limit(max = 2, by = ip, key = "others-narrow")]
#[get("/group")]
async fn group(_claims: Claims) -> &'static str {
    "ok"
}

#[rate_limit(max = 9, by = ip, key = "others-wide")]
#[get("/wide")]
async fn wide() -> &'static str {
    "ok"
}

#[actix_web::test]
async fn the_other_limits_are_charged_all_or_none() {
    let app = service!(fresh(), group, wide);
    let statuses: Vec<u16> = seen!(app, 4, guess("/group")).into_iter().map(|(status, _)| status).collect();
    assert_eq!(statuses, [401, 401, 429, 429]);
    assert_eq!(seen!(app, 1, from_client("/wide")), [(200, Some(6))]);
}

#[rate_limit(max = 100, by = |claims: Claims| claims.0)]
#[rate_limit(max = 100, by = header("x-tenant"))]
#[rate_limit(max = 2, by = ip)]
#[get("/missing")]
async fn missing(_claims: Claims) -> &'static str {
    "ok"
}

#[actix_web::test]
async fn a_guess_without_another_caller_is_charged_as_well() {
    let app = service!(fresh(), missing);
    assert_eq!(seen!(app, 3, guess("/missing")), [(401, Some(1)), (401, Some(0)), (429, Some(0))]);
    // The right token without a tenant is what it was: a bad request, which is charged to no limit.
    assert_eq!(seen!(app, 3, right("/missing")), [(400, None); 3]);
}

#[rate_limit(max = 5, by = global, name = "installation")]
#[rate_limit(max = 100, by = |claims: &Claims| claims.0.clone(), name = "project")]
#[post("/ingest")]
async fn ingest(_claims: Claims) -> &'static str {
    "ok"
}

#[actix_web::test]
async fn strangers_use_up_no_limit_of_all() {
    let (limiter, watch) = watched();
    let app = service!(limiter, ingest);
    let post = |request: TestRequest| request.method(Method::POST);
    let (log, _guard) = Log::of_thread();
    assert_eq!(seen!(app, 9, post(guess("/ingest"))), [(401, None); 9]);
    assert_eq!(watch.calls(), 0, "no limit is left");
    assert_eq!(seen!(app, 2, post(right("/ingest"))), [(200, Some(4)), (200, Some(3))]);
    let [line] = &log.at(Level::WARN)[..] else { panic!("one line: {:?}", log.at(Level::WARN)) };
    assert!(
        line.contains("a limit is left out") && line.contains("installation") && line.contains("#left-out"),
        "{line}"
    );
}

fn peer(req: &HttpRequest) -> IpAddr {
    req.peer_addr().unwrap().ip()
}

macro_rules! beside_claims {
    ($($path:literal $name:ident: ($($argument:tt)*);)*) => {
        $(
            #[rate_limit(max = 100, by = |claims: &Claims| claims.0.clone())]
            #[rate_limit(max = 2, $($argument)*)]
            #[get($path)]
            async fn $name() -> &'static str {
                "ok"
            }
        )*
    };
}

beside_claims! {
    "/ip" by_ip: (by = ip);
    "/tuple" by_tuple: (by = (header("x-tenant"), ip));
    "/template" by_template: (key = "{ip}-for-{header:x-tenant}");
    "/address" by_address: (by = peer);
    "/nested" by_nested: (by = |req: &HttpRequest| (7_u64, (caller::ip(req), "all")));
    "/closure" by_closure: (by = |req: &HttpRequest| caller::ip(req));
    "/fallback" by_fallback: (by = principal_or_ip);
    "/async" by_async: (by = async |req: &HttpRequest| peer(req));
    "/principal" by_principal: (by = principal);
    "/principal-part" by_principal_part: (by = (header("x-tenant"), principal));

    "/global" by_global: (by = global);
    "/header" by_header: (by = header("x-tenant"));
    "/path/{tenant}" by_path: (by = path("tenant"));
    "/header-template" by_header_template: (key = "for-{header:x-tenant}");
    "/text" by_text: (by = |req: &HttpRequest| peer(req).to_string());
    "/parts/{tenant}" by_parts: (by = (path("tenant"), header("x-tenant")));
    "/extracted" by_extracted: (by = |Query(query): Query<Vec<(String, String)>>| query.len());
    "/anonymous" by_anonymous: (by = header("x-nothing"), on_missing = "anonymous");
}

#[actix_web::test]
async fn a_guess_is_charged_where_the_caller_is_known_by_the_server() {
    let app = App::new()
        .app_data(web::Data::new(fresh()))
        .wrap_fn(|req, next| {
            if req.path().starts_with("/principal") {
                req.extensions_mut().insert(Principal::new(("acme", 7_u64)));
            }
            next.call(req)
        })
        .service((by_ip, by_tuple, by_template, by_address, by_nested, by_closure, by_fallback, by_async))
        .service((by_principal, by_principal_part, by_global, by_header, by_path, by_header_template))
        .service((by_text, by_parts, by_extracted, by_anonymous));
    let app = actix_web::test::init_service(app).await;
    let statuses = async |path: &str| {
        let mut statuses = Vec::new();
        for _ in 0..3 {
            let answer = send(&app, guess(path).insert_header(("x-tenant", "acme"))).await;
            statuses.push(answer.status);
        }
        statuses
    };
    for path in [
        "/ip",
        "/tuple",
        "/template",
        "/address",
        "/nested",
        "/closure",
        "/fallback",
        "/async",
        "/principal",
        "/principal-part",
    ] {
        assert_eq!(statuses(path).await, [401, 401, 429], "{path}");
    }
    for path in [
        "/global",
        "/header",
        "/path/acme",
        "/header-template",
        "/text",
        "/parts/acme",
        "/extracted",
        "/anonymous",
    ] {
        assert_eq!(statuses(path).await, [401, 401, 401], "{path}");
    }
}

/// A query with a number.
#[derive(serde::Deserialize)]
struct Number {
    n: u64,
}

macro_rules! computed {
    ($($path:literal $name:ident: ($($argument:tt)*);)*) => {$(
        #[rate_limit($($argument)*)]
        #[rate_limit(max = 2, by = ip)]
        #[get($path)]
        async fn $name() -> &'static str {
            "ok"
        }
    )*};
}

computed! {
    "/max" computed_max: (max = |number: Query<Number>| number.n, by = global);
    "/cost" computed_cost: (max = 9, by = global, cost = |number: Query<Number>| number.n);
    "/skip" computed_skip: (max = 9, by = global, skip = |number: Query<Number>| number.n == 0);
    "/plan" computed_plan: (max = 9, by = global, plan = |number: Query<Number>| number.n.to_string());
    "/part" computed_part: (max = 9, by = (ip, |number: Query<Number>| number.n));
}

#[actix_web::test]
async fn every_value_that_fails_leaves_out_its_own_limit_only() {
    let app = service!(fresh(), computed_max, computed_cost, computed_skip, computed_plan, computed_part);
    for path in ["/max", "/cost", "/skip", "/plan", "/part"] {
        let fails = format!("{path}?n=word");
        let expected = [(400, Some(1)), (400, Some(0)), (429, Some(0))];
        assert_eq!(seen!(app, 3, from_client(&fails)), expected, "{path}");
        let works = format!("{path}?n=9");
        assert_eq!(seen!(app, 1, by("198.51.100.1:1", &works))[0].0, 200, "{path}: the count is whole");
    }
}

#[rate_limit(max = 9, by = |claims: Claims| claims.0)]
#[rate_limit(max = |number: Query<Number>| number.n, by = ip)]
#[get("/several")]
async fn several() -> &'static str {
    "ok"
}

#[rate_limit(max = 9, by = |claims: Claims| claims.0)]
#[rate_limit(max = |_: &HttpRequest| 0, by = ip)]
#[get("/closed")]
async fn closed() -> &'static str {
    "ok"
}

#[actix_web::test]
async fn the_first_error_is_the_response_unless_a_limit_denies() {
    let (limiter, watch) = watched();
    let app = service!(limiter, several, closed);
    let answer = send(&app, guess("/several?n=word")).await;
    assert_eq!((answer.status, answer.body.as_str(), answer.quota()), (401, "wrong token", None));
    assert_eq!(watch.calls(), 0, "no limit is left");
    assert_eq!(send(&app, guess("/closed")).await.status, 429);
}

#[rate_limit(max = 9, by = |claims: Claims| claims.0)]
#[concurrency_limit(max = 1, by = ip)]
#[get("/slot")]
async fn slot(_claims: Claims) -> &'static str {
    "ok"
}

#[actix_web::test]
async fn a_guess_holds_its_slot_until_its_response_is_sent() {
    let app = service!(fresh(), slot);
    let response = actix_web::test::call_service(&app, guess("/slot").to_request()).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(send(&app, guess("/slot")).await.status, 429);
    drop(response);
    assert_eq!(send(&app, guess("/slot")).await.status, 401);
}

#[rate_limit(max = 9, by = |claims: Claims| claims.0)]
#[concurrency_limit(max = 1, by = global)]
#[get("/slot-of-all")]
async fn slot_of_all(_claims: Claims) -> &'static str {
    "ok"
}

#[actix_web::test]
async fn a_guess_holds_no_slot_of_all() {
    let app = service!(fresh(), slot_of_all);
    let response = actix_web::test::call_service(&app, guess("/slot-of-all").to_request()).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(send(&app, right("/slot-of-all")).await.status, 200);
    drop(response);
}

#[rate_limit(max = 9, mode = "shadow", by = |claims: Claims| claims.0)]
#[rate_limit(max = 1, by = ip)]
#[get("/shadow")]
async fn shadow() -> HttpResponse {
    HttpResponse::Ok().finish()
}

#[actix_web::test]
async fn a_value_of_a_shadow_limit_that_fails_is_no_reason_to_reject() {
    let app = service!(fresh(), shadow);
    assert_eq!(seen!(app, 2, guess("/shadow")), [(200, Some(0)), (429, Some(0))]);
}

#[actix_web::test]
async fn a_store_that_is_out_rejects_a_guess_by_the_policy() {
    #[rate_limit(max = 9, by = |claims: Claims| claims.0)]
    #[rate_limit(max = 9, by = ip, on_error = "deny")]
    async fn strict() -> &'static str {
        "ok"
    }
    let (limiter, watch) = watched();
    let app = App::new().app_data(web::Data::new(limiter)).route("/", web::get().to(strict));
    let app = actix_web::test::init_service(app).await;
    watch.hold();
    let mut answer = pin!(send(&app, guess("/")));
    assert!(futures_util::poll!(&mut answer).is_pending(), "the guess waits for the store");
    watch.fail(true);
    watch.release();
    assert_eq!(answer.await.status, 503);
}
