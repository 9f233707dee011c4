//! The callers of the middleware's limits, and what becomes of requests without a caller.

use std::time::Duration;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::{Next, from_fn};
use actix_web::test::init_service;
use actix_web::web::{self, Data};
use actix_web::{App, Error, HttpMessage, HttpRequest, get};
use ratelimit_actix::ratelimit_core::policy::Calendar;
use ratelimit_actix::{Limit, OnMissing, Policy, Principal, RateLimitMiddleware, caller, count, rate_limit};
use tests::answer::{get, statuses};
use tests::send;
use tests::store::fresh;

use super::{FIVE, TWO, ok};

#[actix_web::test]
async fn path_parameters_name_callers_in_scopes_and_around_resources() {
    let parameter =
        |name: &'static str| move |req: &HttpRequest| req.match_info().get(name).map(str::to_owned);
    let scope = web::scope("/scope/{org}")
        .wrap(RateLimitMiddleware::new(Limit::new(&TWO).by(parameter("org"))))
        .route("/{id}", web::get().to(ok));
    // Not matched yet when the middleware of the scope runs: a missing caller, and not a count that all
    // share.
    let early = web::scope("/early")
        .wrap(RateLimitMiddleware::new(Limit::new(&TWO).by(parameter("id"))))
        .route("/{id}", web::get().to(ok));
    let resource = web::resource("/resource/{id}")
        .wrap(RateLimitMiddleware::new(Limit::new(&FIVE).by(parameter("id"))))
        .to(ok);
    let app = App::new().app_data(Data::new(fresh())).service((scope, early, resource));
    let app = init_service(app).await;
    assert_eq!(statuses(&app, "/scope/a/1", 3).await, [200, 200, 429]);
    assert_eq!(statuses(&app, "/scope/b/1", 1).await, [200]);
    assert_eq!(statuses(&app, "/early/1", 1).await, [400]);
    assert_eq!(statuses(&app, "/resource/1", 6).await, [200, 200, 200, 200, 200, 429]);
    assert_eq!(statuses(&app, "/resource/2", 1).await, [200]);
}

#[actix_web::test]
async fn functions_find_the_callers_of_the_attribute() {
    #[rate_limit(policy = TWO, by = header("x-key"))]
    #[rate_limit(policy = FIVE, by = global)]
    #[get("/attribute")]
    async fn attribute() -> &'static str {
        "ok"
    }
    let key = |req: &HttpRequest| caller::header(req, "x-key");
    let limits = RateLimitMiddleware::new(Limit::new(&TWO).by(key)).and(Limit::new(&FIVE).by(caller::global));
    let scope = web::scope("/scope").wrap(limits).route("", web::get().to(ok));
    let app = init_service(App::new().app_data(Data::new(fresh())).service(scope).service(attribute)).await;
    for path in ["/attribute", "/scope"] {
        for field in [None, Some("")] {
            let request = field.into_iter().fold(get(path), |get, key| get.insert_header(("x-key", key)));
            assert_eq!(send(&app, request).await.status, 400, "{path} {field:?}: no caller");
        }
    }
    let cases = [("/attribute", "a", 200), ("/scope", "a", 200), ("/scope", "a", 429), ("/scope", "b", 200)];
    for (path, key, status) in cases {
        assert_eq!(send(&app, get(path).insert_header(("x-key", key))).await.status, status, "{path} {key}");
    }
    for (key, status) in [("b", 200), ("c", 200), ("c", 429), ("d", 429)] {
        let answer = send(&app, get("/attribute").insert_header(("x-key", key))).await;
        assert_eq!(answer.status, status, "{key}: all share five");
    }
}

#[actix_web::test]
async fn on_missing_decides_about_requests_without_a_caller() {
    let tenant = |req: &HttpRequest| req.headers().get("x-tenant").map(|_| "tenant");
    let cases = [
        (OnMissing::Reject, [400, 400, 400]),
        (OnMissing::Skip, [200, 200, 200]),
        (OnMissing::Anonymous, [200, 200, 429]),
    ];
    for (on_missing, expected) in cases {
        let limit = RateLimitMiddleware::new(Limit::new(&TWO).by(tenant).on_missing(on_missing));
        let app = App::new().app_data(Data::new(fresh())).wrap(limit).route("/", web::get().to(ok));
        let app = init_service(app).await;
        assert_eq!(statuses(&app, "/", 3).await, expected, "{on_missing:?}");
        let of_tenant = || get("/").insert_header(("x-tenant", "a"));
        for status in [200, 200, 429] {
            assert_eq!(send(&app, of_tenant()).await.status, status, "{on_missing:?}");
        }
        // Addresses that are not there, as on a Unix socket, are one caller.
        let limit = RateLimitMiddleware::new(Limit::new(&TWO).on_missing(on_missing));
        let app = App::new().app_data(Data::new(fresh())).wrap(limit).route("/", web::get().to(ok));
        let app = init_service(app).await;
        for status in [200, 200, 429] {
            let answer = send(&app, actix_web::test::TestRequest::get().uri("/")).await;
            assert_eq!(answer.status, status, "{on_missing:?}");
        }
    }
    // One that is skipped leaves the others of its group as they are.
    let limit = RateLimitMiddleware::new(&FIVE).and(Limit::new(&TWO).by(tenant).on_missing(OnMissing::Skip));
    let app = App::new().app_data(Data::new(fresh())).wrap(limit).route("/", web::get().to(ok));
    let app = init_service(app).await;
    assert_eq!(statuses(&app, "/", 6).await, [200, 200, 200, 200, 200, 429]);
}

fn streams() -> Limit {
    Limit::new(Policy::concurrency("invalid-streams", 3))
}

fn leased() -> Limit {
    Limit::new(Policy::builder("invalid-leased").lease(Duration::from_millis(100)).build())
}

#[test]
fn an_invalid_group_panics_at_its_construction() {
    type Make = fn() -> RateLimitMiddleware;
    let refused = |make: Make| {
        let panic = std::panic::catch_unwind(make).unwrap_err();
        panic
            .downcast_ref::<String>()
            .cloned()
            .unwrap_or_else(|| (*panic.downcast_ref::<&str>().unwrap()).to_owned())
    };
    let cases: [(Make, &str); 6] = [
        (|| RateLimitMiddleware::new(streams().cost(|_| 1)), "a request holds one slot"),
        (
            || RateLimitMiddleware::new(&TWO).and(streams().count(count::failures)),
            "a concurrency limit counts what runs",
        ),
        (|| RateLimitMiddleware::new(leased().max(|_| 5)), "the units of a lease are charged under one max"),
        (
            || RateLimitMiddleware::new(leased().count(count::failures).charge_after()),
            "a limit that charges after",
        ),
        (
            || RateLimitMiddleware::new(Limit::new(&TWO).anchor(|_| Calendar::month(1))),
            "anchor is for a policy with clamped windows",
        ),
        (
            || (0..64).fold(RateLimitMiddleware::new(&TWO), |group, _| group.and(&TWO)),
            "a group can have at most 64 limits",
        ),
    ];
    for (make, expected) in cases {
        let said = refused(make);
        assert!(said.starts_with(expected), "{said}");
    }
    let most = (1..64).fold(RateLimitMiddleware::new(&TWO), |group, _| group.and(&TWO));
    assert!(format!("{most:?}").contains("two"));
}

async fn authenticate(
    req: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    match req.headers().get("x-api-key").map(|key| key.as_bytes().to_vec()) {
        Some(key) if key == b"alice" => drop(req.extensions_mut().insert(Principal::new(1_u8))),
        Some(key) if key == b"bob" => drop(req.extensions_mut().insert(Principal::new(2_u8))),
        _ => {}
    }
    next.call(req).await
}

#[actix_web::test]
async fn only_a_verified_principal_has_a_count_of_its_own() {
    let limit = RateLimitMiddleware::new(Limit::new(&TWO).by(caller::principal_or_ip));
    let app = App::new()
        .app_data(Data::new(fresh()))
        .wrap(limit)
        .wrap(from_fn(authenticate))
        .route("/", web::to(ok));
    let app = init_service(app).await;
    let cases = [
        ("alice", 200),
        ("alice", 200),
        ("alice", 429),
        ("bob", 200),
        ("x-1", 200),
        ("x-2", 200),
        ("x-3", 429),
        ("", 429),
    ];
    for (key, status) in cases {
        let request = get("/").insert_header(("x-api-key", key));
        assert_eq!(send(&app, request).await.status, status, "{key:?}");
    }
    // Where authentication runs later, there is no principal yet.
    let limit = RateLimitMiddleware::new(Limit::new(&TWO).by(caller::principal_or_ip));
    let app = App::new()
        .app_data(Data::new(fresh()))
        .wrap(from_fn(authenticate))
        .wrap(limit)
        .route("/", web::to(ok));
    let app = init_service(app).await;
    for (key, status) in [("alice", 200), ("bob", 200), ("alice", 429)] {
        assert_eq!(send(&app, get("/").insert_header(("x-api-key", key))).await.status, status);
    }
}
