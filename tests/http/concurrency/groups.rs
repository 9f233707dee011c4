//! Concurrency limits of a handler, beside rates and alone: what is decided, and what clients see.

use std::convert::Infallible;

use actix_http::Request;
use actix_web::body::BoxBody;
use actix_web::dev::{Service, ServiceResponse};
use actix_web::http::{Method, StatusCode};
use actix_web::web::{Bytes, Path};
use actix_web::{App, HttpRequest, HttpResponse, Result, get, test, web};
use futures_util::stream;
use ratelimit_actix::{
    BodyStyle, HeaderStyle, Quotas, RateLimitConfig, RateLimiter, concurrency_limit, rate_limit,
};
use tests::answer::{get as from_client, request};
use tests::store::{clocked, fresh};
use tests::{redis, send, service};

/// A response whose body never ends by itself.
fn endless() -> HttpResponse {
    HttpResponse::Ok().streaming(stream::pending::<Result<Bytes, Infallible>>())
}

#[concurrency_limit(max = 2, key = "streams", by = global)]
#[rate_limit(max = 3, window = "1d", key = "requests", by = global, algorithm = "fixed_window")]
#[get("/chat")]
async fn chat() -> HttpResponse {
    endless()
}

/// The slots of `chat` alone.
#[concurrency_limit(max = 2, key = "streams", by = global)]
#[get("/stream")]
async fn stream_of() -> HttpResponse {
    endless()
}

/// A response that is not read: it holds what its request holds.
async fn call<S: Service<Request, Response = ServiceResponse<BoxBody>, Error = actix_web::Error>>(
    app: &S,
    path: &str,
) -> ServiceResponse<BoxBody> {
    app.call(from_client(path).to_request()).await.unwrap()
}

fn field<'r>(response: &'r ServiceResponse<BoxBody>, name: &str) -> Option<&'r str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

async fn decides_as_one_group(limiter: RateLimiter) {
    let app = service!(limiter, chat, stream_of);
    let first = call(&app, "/chat").await;
    let second = call(&app, "/stream").await;
    assert_eq!((first.status(), second.status()), (StatusCode::OK, StatusCode::OK));
    // No slot is free, and no unit is charged.
    for _ in 0..5 {
        let denied = send(&app, from_client("/chat")).await;
        assert_eq!((denied.status, denied.header("retry-after")), (429, None));
        assert_eq!(denied.quota().map(|quota| (quota.0, quota.1)), Some((3, 2)), "that of the rate");
        let message = "At most 2 requests at a time. Try again when one of them has ended.";
        assert_eq!(denied.body, format!(r#"{{"error":"Too Many Requests","message":"{message}"}}"#));
    }
    drop(second);
    let (third, fourth) = (call(&app, "/chat").await, call(&app, "/chat").await);
    assert_eq!((third.status(), fourth.status()), (StatusCode::OK, StatusCode::TOO_MANY_REQUESTS));
    drop(third);
    // The last unit, and then the rate denies: no slot is taken.
    drop(call(&app, "/chat").await);
    for _ in 0..5 {
        let denied = send(&app, from_client("/chat")).await;
        assert_eq!(denied.status, 429);
        assert!(denied.header("retry-after").is_some() && denied.body.contains("Try again in"), "{denied:?}");
    }
    let both = call(&app, "/stream").await;
    assert_eq!(both.status(), StatusCode::OK);
    // Both deny: until the rate admits the request, it does not pass whatever ends.
    let denied = send(&app, from_client("/chat")).await;
    assert!(denied.header("retry-after").is_some() && denied.body.contains("Try again in"), "{denied:?}");
    drop((first, both));
    let free = [call(&app, "/stream").await, call(&app, "/stream").await];
    assert!(free.iter().all(|response| response.status() == StatusCode::OK));
}

#[actix_web::test]
async fn a_slot_is_taken_and_a_unit_charged_or_neither_in_memory() {
    decides_as_one_group(fresh()).await;
}

#[actix_web::test]
async fn a_slot_is_taken_and_a_unit_charged_or_neither_in_redis() {
    let Some(server) = redis::server() else { return };
    decides_as_one_group(server.limiter_at(&clocked().1)).await;
}

#[actix_web::test]
async fn draft_11_reports_slots_and_the_other_styles_leave_them_out() {
    let styles = [HeaderStyle::Draft11, HeaderStyle::LegacyDelta];
    let config = RateLimitConfig::builder().headers(styles).body(BodyStyle::Problem).build().unwrap();
    let app = App::new().app_data(fresh()).app_data(config).service(chat).service(stream_of);
    let app = test::init_service(app).await;
    let first = call(&app, "/stream").await;
    assert_eq!(field(&first, "ratelimit-policy"), Some(r#""streams";q=2;qu="concurrent-requests""#));
    assert_eq!(field(&first, "ratelimit"), Some(r#""streams";r=1"#));
    assert_eq!(field(&first, "x-ratelimit-limit"), None);
    let second = call(&app, "/chat").await;
    let policies = r#""streams";q=2;qu="concurrent-requests", "requests";q=3;w=86400"#;
    assert_eq!(field(&second, "ratelimit-policy"), Some(policies));
    let limits = field(&second, "ratelimit").unwrap();
    assert!(limits.starts_with(r#""streams";r=0, "requests";r=2;t="#), "{limits}");
    assert_eq!(field(&second, "x-ratelimit-remaining"), Some("2"));
    let denied = send(&app, from_client("/stream")).await;
    assert_eq!(denied.header("ratelimit"), Some(r#""streams";r=0"#));
    assert!(denied.body.contains("http-problem-types#quota-exceeded"), "{}", denied.body);
    assert!(denied.body.ends_with(r#""violated-policies":["streams"]}"#), "{}", denied.body);
}

#[actix_web::test]
async fn a_custom_body_can_say_that_only_slots_are_missing() {
    let config = RateLimitConfig::builder().body_with("text/plain", |info| format!("{:?}", info.at_a_time()));
    let config = config.build().unwrap();
    let app = App::new().app_data(fresh()).app_data(config).service(chat).service(stream_of);
    let app = test::init_service(app).await;
    let held = [call(&app, "/chat").await, call(&app, "/chat").await];
    assert_eq!(send(&app, from_client("/chat")).await.body, "Some(2)");
    drop(held);
    let last = call(&app, "/chat").await;
    let _stream = call(&app, "/stream").await;
    assert_eq!(send(&app, from_client("/chat")).await.body, "None", "a rate denies as well");
    drop(last);
}

#[actix_web::test]
async fn a_group_that_is_left_out_holds_nothing() {
    #[concurrency_limit(max = 1, by = header("x-account"), on_missing = "skip", skip = |req: &HttpRequest| req.path() == "/free")]
    async fn optional() -> HttpResponse {
        endless()
    }
    let app = App::new().app_data(fresh()).route("/a", web::to(optional)).route("/free", web::to(optional));
    let app = test::init_service(app).await;
    let held = from_client("/a").insert_header(("x-account", "7")).to_request();
    let held = app.call(held).await.unwrap();
    let account = |path, method| request(method, path).insert_header(("x-account", "7"));
    assert_eq!(send(&app, account("/a", Method::GET)).await.status, 429);
    for passes in [account("/a", Method::OPTIONS), account("/free", Method::GET), from_client("/a")] {
        assert_eq!(app.call(passes.to_request()).await.unwrap().status(), StatusCode::OK);
    }
    drop(held);
    assert_eq!(app.call(account("/a", Method::GET).to_request()).await.unwrap().status(), StatusCode::OK);
}

#[actix_web::test]
async fn max_can_be_chosen_per_request() {
    #[concurrency_limit(max = |max: Path<u64>| *max, by = global)]
    #[get("/{max}")]
    async fn chosen() -> HttpResponse {
        endless()
    }
    let app = service!(fresh(), chosen);
    let held = [call(&app, "/1").await, call(&app, "/2").await];
    assert!(held.iter().all(|response| response.status() == StatusCode::OK));
    let statuses = [call(&app, "/0").await, call(&app, "/2").await, call(&app, "/3").await];
    assert_eq!(statuses.map(|response| response.status().as_u16()), [429, 429, 200]);
}

#[actix_web::test]
async fn a_handler_charges_and_refunds_rates_and_holds_its_slot() {
    #[concurrency_limit(max = 5, key = "slots", by = global)]
    #[rate_limit(max = 10, window = "1d", key = "failures", by = global, count = "failures")]
    #[get("/{status}")]
    async fn answers(status: Path<u16>, quotas: Quotas) -> Result<HttpResponse> {
        assert_eq!(quotas.charge_up_to(2).await.unwrap(), 2);
        let left = quotas.to_vec();
        let left: Vec<u64> = left.iter().map(|quota| quota.outcome().remaining()).collect();
        let status = StatusCode::from_u16(*status).unwrap();
        Ok(HttpResponse::build(status).body(format!("{left:?}")))
    }
    let app = service!(fresh(), answers);
    // Not counted: given back after the response, whose body holds the slot.
    let first = call(&app, "/200").await;
    let second = send(&app, from_client("/404")).await;
    assert_eq!((second.body.as_str(), second.quota().unwrap().1), ("[3, 7]", 7));
    drop(first);
    assert_eq!(send(&app, from_client("/200")).await.body, "[4, 4]");
}

#[actix_web::test]
async fn a_slot_is_not_settled() {
    #[concurrency_limit(max = 5, key = "slots", by = global)]
    #[get("/")]
    async fn settles(quotas: Quotas) -> String {
        let settled = quotas.limit("slots").unwrap().settle(3).await;
        let later = quotas.limit("slots").unwrap().settle_on_drop(ratelimit_actix::UsageCounter::default());
        format!("{}; {}", settled.unwrap_err(), later.unwrap_err())
    }
    let answer = send(&service!(fresh(), settles), from_client("/")).await;
    let error =
        "`slots` is a concurrency limit, whose slots are freed when the work ends, so it cannot be settled";
    assert_eq!(answer.body, format!("{error}; {error}"));
}

#[concurrency_limit(max = 1, by = global)]
mod api {
    use super::{HttpResponse, endless, get};

    #[get("/first")]
    pub(super) async fn first() -> HttpResponse {
        endless()
    }

    #[get("/second")]
    #[rate_limit]
    #[rate_limit(max = 2, window = "1d", by = global)]
    pub(super) async fn second() -> HttpResponse {
        endless()
    }

    #[get("/free")]
    #[no_rate_limit]
    pub(super) async fn free() -> HttpResponse {
        endless()
    }
}

struct Exports;

#[allow(clippy::unused_async, reason = "a handler is async")]
#[concurrency_limit(max = 1, by = global, key = "exports")]
impl Exports {
    async fn csv() -> HttpResponse {
        endless()
    }

    async fn json() -> HttpResponse {
        endless()
    }
}

#[actix_web::test]
async fn modules_and_impl_blocks_limit_each_handler_inside() {
    let app = App::new().app_data(fresh()).service(api::first).service(api::second).service(api::free);
    let app = app.route("/csv", web::get().to(Exports::csv)).route("/json", web::get().to(Exports::json));
    let app = test::init_service(app).await;
    let mut held = Vec::new();
    for (path, status) in [
        ("/first", 200),
        ("/first", 429),
        ("/second", 200),
        ("/second", 429),
        ("/free", 200),
        ("/free", 200),
        // One count for both.
        ("/csv", 200),
        ("/json", 429),
    ] {
        let response = call(&app, path).await;
        assert_eq!(response.status().as_u16(), status, "{path}");
        held.push(response);
    }
    held.clear();
    // The rate of its own: one unit was charged.
    assert_eq!(call(&app, "/second").await.status(), StatusCode::OK);
    let denied = call(&app, "/second").await;
    assert!(field(&denied, "retry-after").is_some());
}
