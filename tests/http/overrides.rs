//! Overrides over HTTP: which numbers apply to which request, and what becomes of requests while a file
//! changes.

mod reload;

use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::test::init_service;
use actix_web::web::{self, Data, ReqData};
use actix_web::{App, HttpMessage, HttpRequest, HttpResponse, get};
use ratelimit_actix::ratelimit_core::Timestamp;
use ratelimit_actix::ratelimit_core::clock::FakeClock;
use ratelimit_actix::ratelimit_core::overrides::Origin;
use ratelimit_actix::{
    Limit, MemoryStore, Overrides, Policy, Principal, Quotas, RateLimitMiddleware, RateLimiter,
    RateLimiterBuilder, caller, declared_limits, rate_limit, reset_caller,
};
use tests::answer::{Answer, get as from_client, statuses};
use tests::log::Log;
use tests::store::START;
use tests::{send, service};
use tracing::Level;

#[rate_limit(max = 2, window = "60s", name = "ov-plain")]
#[get("/plain")]
async fn plain() -> &'static str {
    "ok"
}

#[rate_limit(max = 2, window = "60s", name = "ov-tenant", by = header("x-tenant"))]
#[get("/tenant")]
async fn of_tenant() -> &'static str {
    "ok"
}

#[derive(Clone)]
struct User {
    id: u64,
    plan: &'static str,
}

#[rate_limit(max = 2, window = "60s", name = "ov-plan", by = |user: ReqData<User>| user.id, plan = |user: ReqData<User>| user.plan)]
#[get("/plan")]
async fn of_plan() -> &'static str {
    "ok"
}

fn plan_of(req: &HttpRequest) -> Option<&str> {
    req.headers().get("x-plan")?.to_str().ok()
}

/// `max` is chosen for each request as well.
#[rate_limit(max = |_: &HttpRequest| 3, window = "60s", name = "ov-chosen", plan = plan_of)]
#[get("/chosen")]
async fn of_chosen() -> &'static str {
    "ok"
}

#[rate_limit(max = |_: &HttpRequest| 1, window = "60s", name = "ov-computed", by = header("x-tenant"))]
#[get("/computed")]
async fn of_computed() -> &'static str {
    "ok"
}

/// No limit: it admits nothing.
#[rate_limit(max = |_: &HttpRequest| 0, window = "60s", name = "ov-nothing")]
#[get("/nothing")]
async fn of_nothing() -> &'static str {
    "ok"
}

#[rate_limit(max = 1, window = "60s", name = "ov-off")]
#[rate_limit(max = 9, window = "60s", name = "ov-beside")]
#[get("/off")]
async fn off(quotas: Quotas) -> String {
    quotas.to_vec().iter().map(|quota| quota.name().to_owned()).collect::<Vec<_>>().join(" ")
}

#[rate_limit(max = |_: &HttpRequest| -> u64 { unreachable!("the limit is off") }, name = "ov-unneeded")]
#[get("/unneeded")]
async fn unneeded() -> &'static str {
    "ok"
}

/// Needs a caller.
#[rate_limit(max = 1, window = "60s", name = "ov-missing", by = header("x-tenant"), plan = plan_of)]
#[get("/missing")]
async fn missing() -> &'static str {
    "ok"
}

static SCOPE: Policy = Policy::builder("ov-scope").max(50).build();

#[rate_limit(max = 3, window = "60s", name = "ov-inner")]
#[get("/inner")]
async fn inner(quotas: Quotas) -> String {
    quotas.to_vec().iter().map(|quota| quota.policy().max().to_string()).collect::<Vec<_>>().join(" ")
}

/// Units come back if the response is a success.
#[rate_limit(max = 5, window = "60s", name = "ov-count", count = "failures")]
#[get("/count")]
async fn count(limiter: Data<RateLimiter>) -> HttpResponse {
    limiter.replace_overrides(parsed("[limit.ov-count]\nwindow = '2m'")).unwrap();
    HttpResponse::new(StatusCode::OK)
}

fn parsed(text: &str) -> Overrides {
    text.parse().unwrap()
}

fn builder() -> RateLimiterBuilder {
    let clock = FakeClock::at(Timestamp::from_micros(START * 1_000_000));
    RateLimiter::builder(MemoryStore::new().with_clock(clock)).policies([&SCOPE])
}

fn limiter(text: &str) -> RateLimiter {
    builder().overrides(parsed(text)).build()
}

fn limit_of(answer: &Answer) -> u64 {
    answer.quota().unwrap().0
}

#[actix_web::test]
async fn the_numbers_of_the_overrides_apply_and_are_shown() {
    let limiter = limiter("[limit.ov-plain]\nmax = 3");
    let app = service!(limiter, plain, of_tenant);
    assert_eq!(limit_of(&send(&app, from_client("/plain")).await), 3);
    assert_eq!(statuses(&app, "/plain", 3).await, [200, 200, 429]);
    limiter.replace_overrides(parsed("[limit.ov-plain]\nmax = 5")).unwrap();
    assert_eq!(statuses(&app, "/plain", 3).await, [200, 200, 429], "3 of 5 were counted before");
    limiter.replace_overrides(Overrides::new()).unwrap();
    assert_eq!(statuses(&app, "/plain", 1).await, [429]);
}

#[actix_web::test]
async fn the_max_of_a_row_beats_a_computed_one_that_is_no_limit() {
    let limiter = limiter("");
    let app = service!(limiter, of_nothing);
    assert_eq!(statuses(&app, "/nothing", 1).await, [429]);
    limiter.replace_overrides(parsed("[limit.ov-nothing]\nmax = 2")).unwrap();
    assert_eq!(statuses(&app, "/nothing", 3).await, [200, 200, 429]);
}

#[actix_web::test]
async fn the_numbers_of_a_limit_hold_for_callers_with_a_row_under_a_computed_max() {
    let rows = "[limit.ov-computed]\nblock = '1h'\n[limit.ov-computed.callers]\n'text acct-42' = { on_error = 'deny' }";
    let app = service!(limiter(rows), of_computed);
    for tenant in ["acct-42", "acct-43"] {
        let request = || from_client("/computed").insert_header(("x-tenant", tenant));
        assert_eq!(send(&app, request()).await.status, 200);
        assert_eq!(send(&app, request()).await.header("retry-after"), Some("3600"), "{tenant}");
    }
}

#[actix_web::test]
async fn a_row_applies_to_one_caller() {
    let app = service!(limiter("[limit.ov-tenant.callers]\n'text acct-42' = { max = 4 }"), of_tenant);
    for (tenant, limit) in [("acct-42", 4), ("acct-43", 2)] {
        let answer = send(&app, from_client("/tenant").insert_header(("x-tenant", tenant))).await;
        assert_eq!(limit_of(&answer), limit, "{tenant}");
    }
    let by_address = limiter("[limit.ov-plain.callers]\n'address 192.0.2.1' = { max = 7 }");
    let app = service!(by_address, plain);
    assert_eq!(limit_of(&send(&app, from_client("/plain")).await), 7);
    assert_eq!(limit_of(&send(&app, tests::answer::by("192.0.2.2:1", "/plain")).await), 2);
}

#[actix_web::test]
async fn a_plan_has_numbers_of_its_own_and_a_caller_beats_it() {
    let text = "[limit.ov-plan]\nmax = 4\n[limit.ov-plan.plans]\npro = { max = 1000 }\n\
                [limit.ov-plan.callers]\n'number 7' = { max = 500 }\n[limit.ov-chosen.plans]\npro = { max = 8 }\nslow = { window = '1h' }";
    let app = service!(limiter(text), of_plan, of_chosen);
    for (id, plan, limit) in [(1, "pro", 1000), (2, "free", 4), (7, "pro", 500), (7, "free", 500)] {
        let req = from_client("/plan").to_request();
        req.extensions_mut().insert(User { id, plan });
        let response = actix_web::test::call_service(&app, req).await;
        assert_eq!(response.headers().get("x-ratelimit-limit").unwrap(), &limit.to_string(), "{id} {plan}");
    }
    for (plan, limit, reset) in [("pro", 8, 120), ("slow", 3, 7200), ("none", 3, 120)] {
        let answer = send(&app, from_client("/chosen").insert_header(("x-plan", plan))).await;
        let (found, _, at) = answer.quota().unwrap();
        assert_eq!(found, limit, "{plan}");
        assert!(at - START <= reset && at - START > reset / 60, "{plan}: {at}");
    }
    assert_eq!(limit_of(&send(&app, from_client("/chosen")).await), 3, "without a plan");
}

#[actix_web::test]
async fn a_limit_that_is_off_is_neither_checked_nor_shown() {
    let app =
        service!(limiter("[limit.ov-off]\nmode = 'off'\n[limit.ov-missing]\nmode = 'off'"), off, missing);
    assert_eq!(statuses(&app, "/off", 3).await, [200, 200, 200]);
    let answer = send(&app, from_client("/off")).await;
    assert_eq!((answer.body.as_str(), limit_of(&answer)), ("ov-beside", 9));
    assert_eq!(statuses(&app, "/missing", 2).await, [200, 200], "no caller is needed");
    let app = service!(limiter("[limit.ov-unneeded]\nmode = 'off'"), unneeded);
    assert_eq!(statuses(&app, "/unneeded", 1).await, [200], "no function of the limit is called");
    // For all requests but those of one plan.
    let rows = "[limit.ov-missing]\nmode = 'off'\n[limit.ov-missing.plans]\npro = { mode = 'enforce' }";
    let app = service!(limiter(rows), missing);
    assert_eq!(statuses(&app, "/missing", 2).await, [200, 200], "no caller is needed");
    // For one caller only.
    let app = service!(limiter("[limit.ov-tenant.callers]\n'text friend' = { mode = 'off' }"), of_tenant);
    for (tenant, expected) in [("friend", 200), ("other", 429)] {
        let mut status = 0;
        for _ in 0..3 {
            let answer = send(&app, from_client("/tenant").insert_header(("x-tenant", tenant))).await;
            status = answer.status;
        }
        assert_eq!(status, expected, "{tenant}");
    }
}

#[actix_web::test]
async fn a_shadow_limit_by_overrides_rejects_nothing() {
    let text = "[limit.ov-plain]\nmode = 'shadow'\nmax = 1\n[limit.ov-missing]\nmode = 'shadow'";
    let app = service!(limiter(text), plain, missing);
    assert_eq!(statuses(&app, "/plain", 3).await, [200, 200, 200]);
    assert_eq!(statuses(&app, "/missing", 1).await, [200]);
    assert_eq!(send(&app, from_client("/plain")).await.quota(), None, "clients do not see it");
}

#[actix_web::test]
async fn each_group_of_a_request_is_decided_by_what_is_in_force_then() {
    let limiter = limiter("[limit.ov-scope]\nmax = 2");
    let swapped = limiter.clone();
    let swap = move |req: actix_web::dev::ServiceRequest, next: actix_web::middleware::Next<_>| {
        swapped.replace_overrides(parsed("[limit.ov-inner]\nmax = 7")).unwrap();
        next.call(req)
    };
    let scope = web::scope("")
        .service(inner)
        .wrap(actix_web::middleware::from_fn(swap))
        .wrap(RateLimitMiddleware::new(Limit::new(&SCOPE)));
    let app = init_service(App::new().app_data(Data::new(limiter.clone())).service(scope)).await;
    let answer = send(&app, from_client("/inner")).await;
    assert_eq!(answer.body, "2 7", "those before in the middleware, the new ones in the handler");
    assert_eq!(send(&app, from_client("/inner")).await.body, "50 7");
}

fn scoped(overrides: &str, limit: Limit) -> (RateLimiter, RateLimitMiddleware) {
    let builder = RateLimiter::builder(MemoryStore::new()).policies([&SCOPE]);
    (builder.overrides(parsed(overrides)).build(), RateLimitMiddleware::new(limit))
}

#[actix_web::test]
async fn plans_apply_to_middleware() {
    let (limiter, middleware) = scoped(
        "[limit.ov-scope.plans]\npro = { max = 1000 }",
        Limit::new(&SCOPE).plan(|req| plan_of(req).map(str::to_owned)),
    );
    let app = App::new().app_data(Data::new(limiter.clone())).wrap(middleware);
    let app = init_service(app.route("/", web::to(HttpResponse::Ok))).await;
    let of_pro = async || send(&app, from_client("/").insert_header(("x-plan", "pro"))).await;
    assert_eq!(limit_of(&of_pro().await), 1000);
    assert_eq!(of_pro().await.quota().map(|quota| quota.1), Some(998));
    let client: std::net::IpAddr = [192, 0, 2, 1].into();
    reset_caller(&limiter, &SCOPE, client).await.unwrap();
    assert_eq!(of_pro().await.quota().map(|quota| quota.1), Some(999));
    assert_eq!(limit_of(&send(&app, from_client("/").insert_header(("x-plan", "free"))).await), 50);
    assert_eq!(limit_of(&send(&app, from_client("/")).await), 50);
}

#[actix_web::test]
async fn overrides_that_do_nothing_or_deny_all_in_middleware_are_said_once() {
    let (log, _guard) = Log::of_thread();
    let text = "[limit.ov-scope]\nmax = 2\n[limit.ov-scope.plans]\npro = { max = 1000 }";
    let (limiter, middleware) = scoped(text, Limit::new(&SCOPE).cost(|_| 3));
    let app = App::new().app_data(Data::new(limiter)).wrap(middleware).route("/", web::to(HttpResponse::Ok));
    assert_eq!(statuses(&init_service(app).await, "/", 3).await, [429, 429, 429]);
    let (warnings, errors) = (log.at(Level::WARN), log.at(Level::ERROR));
    assert!(warnings.len() == 1 && warnings[0].contains("has no `plan`"), "{warnings:?}");
    assert!(errors.len() == 1 && errors[0].contains("allow less than the `cost`"), "{errors:?}");
}

#[actix_web::test]
async fn two_rows_for_one_caller_are_a_mistake() {
    let error = |callers: &str| {
        let text = format!("[limit.ov-plain.callers]\n{callers}");
        builder()
            .overrides(parsed(&text))
            .try_build()
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    for (one, other) in [("2001:db8::1", "2001:db8::2"), ("192.0.2.1", "::ffff:192.0.2.1")] {
        let error = error(&format!("'address {one}' = {{ max = 5 }}\n'address {other}' = {{ max = 6 }}"));
        assert!(error.contains("a caller of limit `ov-plain`: another row, in line "), "{error}");
        assert!(error.contains("stands for the same caller") && !error.contains(one), "{error}");
    }
    let different = [
        "address 2001:db8::1/128",
        "address 2001:db8::2/128",
        "address 192.0.2.1",
        "text 192.0.2.1",
        "number 7",
        "text 7",
        "text acme + number 7",
        "text acme + text 7",
        "text acme",
        "everyone",
        "text everyone",
    ];
    assert_eq!(error(&different.map(|caller| format!("'{caller}' = {{}}\n")).concat()), "");
}

#[actix_web::test]
async fn a_row_without_a_kind_is_a_mistake_that_says_what_to_write() {
    let error = |name: &str, caller: &str| {
        let text = format!("[limit.{name}.callers]\n\"{caller}\" = {{}}");
        builder()
            .overrides(parsed(&text))
            .try_build()
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    for caller in ["203.0.113.7", "acme-42", "7", "acme-42 + 7"] {
        for name in ["ov-plain", "ov-scope"] {
            let error = error(name, caller);
            let expected = format!(
                "line 2: a caller of limit `{name}`: expected a kind before the value, such as `address"
            );
            assert!(error.contains(&expected) && !error.contains(&format!("{caller} ")), "{error}");
            // A policy of the builder may be one that the application checks itself.
            let hint = "or `number 7`; `partition tenant-42` for a policy that the application checks itself";
            assert_eq!(error.contains(hint), name == "ov-scope", "{error}");
        }
    }
    let empty = error("ov-plain", "");
    assert!(empty.contains("a caller of limit `ov-plain`: expected a caller, such as `address"), "{empty}");
    assert_eq!(error("ov-plain", "text "), "", "the empty text is a caller");
    assert!(error("ov-plain", "address acme-42").contains("expected an address after `address`"));
    assert!(
        error("ov-plain", "partition a").contains("`partition` is for policies that the application checks")
    );
    assert_eq!(error("ov-scope", "partition a"), "");
    assert_eq!(error("ov-scope", "text acme\\nnumber 7"), "");
}

/// An address of the client, or the name with which a user has signed up.
#[rate_limit(max = 2, window = "60s", name = "ov-mixed", by = caller::principal_or_ip)]
#[get("/mixed")]
async fn of_user_or_address() -> &'static str {
    "ok"
}

#[actix_web::test]
async fn a_row_for_an_address_does_not_apply_to_an_account_with_that_name() {
    let rows = "'address 192.0.2.1' = { max = 500 }\n'text 198.51.100.9' = { max = 7 }";
    let app = service!(limiter(&format!("[limit.ov-mixed.callers]\n{rows}")), of_user_or_address);
    let limit = async |user: Option<&'static str>, peer: &str| {
        let req = tests::answer::by(peer, "/mixed").to_request();
        user.map(|name| req.extensions_mut().insert(Principal::new(name)));
        let response = actix_web::test::call_service(&app, req).await;
        response.headers().get("x-ratelimit-limit").unwrap().to_str().unwrap().to_owned()
    };
    assert_eq!(limit(None, "192.0.2.1:1").await, "500");
    assert_eq!(limit(Some("192.0.2.1"), "192.0.2.9:1").await, "2");
    assert_eq!(limit(None, "198.51.100.9:1").await, "2");
    assert_eq!(limit(Some("198.51.100.9"), "192.0.2.9:1").await, "7");
}

#[actix_web::test]
async fn a_caller_is_reset_under_every_row_that_may_apply() {
    let text = "[limit.ov-plan]\nmax = 1\n[limit.ov-plan.plans]\npro = { window = '2m' }\n\
                [limit.ov-plan.callers]\n'number 9' = { window = '3m' }";
    let limiter = limiter(text);
    let app = service!(limiter, of_plan);
    let limit = declared_limits().into_iter().find(|limit| limit.policy().name() == "ov-plan").unwrap();
    let left = async |id: u64| limit.peek_caller(&limiter, id).await.unwrap().unwrap().remaining();
    for (id, plan) in [(1, "free"), (2, "pro"), (9, "free")] {
        let status = async || {
            let req = from_client("/plan").to_request();
            req.extensions_mut().insert(User { id, plan });
            actix_web::test::call_service(&app, req).await.status()
        };
        assert_eq!(
            (status().await, status().await),
            (StatusCode::OK, StatusCode::TOO_MANY_REQUESTS),
            "{plan}"
        );
        // The numbers of a plan are those of its requests only.
        assert_eq!((left(id).await, left(id + 100).await), (u64::from(plan == "pro"), 1));
        limit.reset_caller(&limiter, id + 100).await.unwrap();
        assert_eq!(status().await, StatusCode::TOO_MANY_REQUESTS, "another caller was reset");
        limit.reset_caller(&limiter, id).await.unwrap();
        assert_eq!(left(id).await, 1);
        assert_eq!(status().await, StatusCode::OK, "{plan}");
    }
    limit.reset_caller(&limiter, None::<u64>).await.unwrap();
    assert_eq!(limit.peek_caller(&limiter, None::<u64>).await.unwrap(), None);
    let named = |name| declared_limits().into_iter().find(|limit| limit.policy().name() == name).unwrap();
    assert_eq!(named("ov-computed").peek_caller(&limiter, "a").await.unwrap(), None);
    limiter.replace_overrides(parsed("[limit.ov-plan]\nmode = 'off'\n[limit.ov-computed]\nmax = 7")).unwrap();
    assert_eq!(limit.peek_caller(&limiter, 1_u64).await.unwrap(), None);
    let computed = named("ov-computed").peek_caller(&limiter, "a").await.unwrap().unwrap();
    assert_eq!((computed.capacity(), computed.remaining()), (7, 7));
}

#[actix_web::test]
async fn a_caller_is_reset_also_in_the_mode_before_the_overrides_changed_it() {
    let row = "[limit.ov-plain]\nmax = 1\nwindow = '2m'\n";
    let limiter = limiter(row);
    let app = service!(limiter, plain);
    let limit = declared_limits().into_iter().find(|limit| limit.policy().name() == "ov-plain").unwrap();
    let client: std::net::IpAddr = [192, 0, 2, 1].into();
    assert_eq!(statuses(&app, "/plain", 2).await, [200, 429]);
    limiter.replace_overrides(parsed(&format!("{row}mode = 'shadow'"))).unwrap();
    assert_eq!(statuses(&app, "/plain", 2).await, [200, 200]);
    limit.reset_caller(&limiter, client).await.unwrap();
    limiter.replace_overrides(parsed(row)).unwrap();
    assert_eq!(statuses(&app, "/plain", 2).await, [200, 429]);
}

#[actix_web::test]
async fn a_request_gives_back_what_it_was_charged_though_the_window_has_changed() {
    let limiter = limiter("[limit.ov-count]\nmax = 4");
    let app = service!(limiter, count);
    let old = declared_limits().into_iter().find(|limit| limit.policy().name() == "ov-count").unwrap();
    let old = limiter.in_force(old.policy()).policy().clone();
    let caller: Vec<u8> = [1, 192, 0, 2, 1].into();
    assert_eq!(send(&app, from_client("/count")).await.status, 200);
    assert_eq!(limiter.in_force(&Policy::builder("x").build()).origin(), Origin::Program);
    assert_eq!(limiter.peek(&old, &caller).await.unwrap().remaining(), 4, "the unit came back");
}
