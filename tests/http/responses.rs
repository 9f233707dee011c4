//! What a response says about the limits: quotas, waits, errors, and nothing that the client sent.

use std::fmt;
use std::time::Duration;

use actix_web::dev::Service as _;
use actix_web::http::StatusCode;
use actix_web::http::header::CACHE_CONTROL;
use actix_web::middleware::DefaultHeaders;
use actix_web::web::{self, Data, Path};
use actix_web::{App, HttpRequest, HttpResponse, ResponseError, error, get, test};
use ratelimit_actix::{
    Limit, OnError, Policy, Quotas, RateLimitConfig, RateLimitConfigBuilder, RateLimitMiddleware,
    RateLimited, rate_limit,
};
use tests::answer::{get, statuses};
use tests::store::{SECRET, START, clocked, fresh, watched};
use tests::{send, service};

#[rate_limit(max = 3, algorithm = "fixed_window")]
#[get("/{outcome}")]
async fn handler(outcome: Path<u8>) -> Result<String, Teapot> {
    if *outcome == 0 { Err(Teapot) } else { Ok(outcome.to_string()) }
}

#[derive(Debug)]
struct Teapot;

impl fmt::Display for Teapot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("teapot")
    }
}

impl ResponseError for Teapot {
    fn status_code(&self) -> StatusCode {
        StatusCode::IM_A_TEAPOT
    }
}

#[actix_web::test]
async fn every_response_to_a_counted_request_shows_the_quota() {
    let (limiter, clock) = clocked();
    let app = service!(limiter, handler);
    clock.advance(Duration::from_secs(18));
    let expected = [("/1", 200, 2), ("/0", 418, 1), ("/not-a-number", 404, 0), ("/1", 429, 0)];
    for (path, status, remaining) in expected {
        let answer = send(&app, get(path)).await;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.quota(), Some((3, remaining, START + 60)), "{path}");
        assert_eq!(answer.header("retry-after").is_some(), status == 429, "{path}");
    }
}

#[actix_web::test]
async fn a_denial_gives_the_exact_retry_time() {
    let (limiter, clock) = clocked();
    let app = service!(limiter, handler);
    clock.advance(Duration::from_secs(18));
    statuses(&app, "/1", 3).await;
    let answer = send(&app, get("/1")).await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.header("retry-after"), Some("42"));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(
        answer.body,
        r#"{"error":"Too Many Requests","message":"Rate limit exceeded. Try again in 42 seconds.","retryAfter":42}"#
    );

    clock.advance(Duration::from_micros(41_000_001));
    let answer = send(&app, get("/1")).await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("1")));
    assert!(answer.body.contains("Try again in 1 second."), "{}", answer.body);

    clock.advance(Duration::from_micros(999_999));
    assert_eq!(send(&app, get("/1")).await.status, 200);
}

#[rate_limit(max = 1, window = "1s", algorithm = "sliding_window_log")]
#[get("/rounded")]
async fn rounded() -> &'static str {
    ""
}

#[actix_web::test]
async fn waits_are_rounded_up_to_whole_seconds() {
    let (limiter, clock) = clocked();
    let app = service!(limiter, rounded);
    // The log is exact to the microsecond: this entry counts for one second and one microsecond.
    assert_eq!(send(&app, get("/rounded")).await.quota(), Some((1, 0, START + 2)));
    let answer = send(&app, get("/rounded")).await;
    assert_eq!(answer.header("retry-after"), Some("2"));
    clock.advance(Duration::from_secs(2));
    assert_eq!(send(&app, get("/rounded")).await.status, 200);
}

#[rate_limit(max = 10, cost = |_: &HttpRequest| 11)]
#[get("/never")]
async fn never() -> &'static str {
    ""
}

#[actix_web::test]
async fn a_request_that_can_never_pass_gets_no_retry_after() {
    let app = service!(fresh(), never);
    let answer = send(&app, get("/never")).await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, None));
    assert_eq!(answer.quota(), Some((10, 10, START)));
    assert!(!answer.body.contains("retryAfter"), "{}", answer.body);
}

#[rate_limit(max = 100, window = "1s")]
#[rate_limit(max = 5, window = "1m")]
#[rate_limit(max = 1000, window = "1d")]
#[get("/several")]
async fn several() -> HttpResponse {
    HttpResponse::Ok().insert_header(("X-RateLimit-Limit", "mine")).finish()
}

#[actix_web::test]
async fn the_tightest_limit_is_shown_whatever_the_handler_sets() {
    let app = service!(fresh(), several);
    let answer = send(&app, get("/several")).await;
    assert_eq!(answer.header("x-ratelimit-limit"), Some("5"));
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("4"));
}

#[actix_web::test]
async fn errors_stay_visible_to_middleware() {
    let app = service!(fresh(), handler);
    assert_eq!(send(&app, get("/0")).await.error.as_deref(), Some("Teapot"));
    let extractor = send(&app, get("/not-a-number")).await.error.unwrap();
    assert!(extractor.contains("not-a-number"), "{extractor}");
    assert_eq!(send(&app, get("/1")).await.error, None);

    let response = app.call(get("/1").to_request()).await.unwrap();
    let denied = response.response().error().unwrap().as_error::<RateLimited>().unwrap();
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(60)));
    assert_eq!(denied.outcome().outcomes().len(), 1);
}

fn secret_name(req: &HttpRequest) -> Option<String> {
    let name = req.headers().get("x-name")?.to_str().ok()?;
    (name != "none").then(|| name.to_owned())
}

#[rate_limit(max = 1, by = secret_name, name = "shown", on_error = "deny")]
#[get("/echo/{tail:.*}")]
async fn echo() -> &'static str {
    "ok"
}

#[actix_web::test]
async fn responses_contain_nothing_that_the_client_sent() {
    let (limiter, watch) = watched();
    let app = service!(limiter, echo);
    let request_of = |name: &str| {
        get("/echo/%3Cmarker%3E?marker=marker")
            .insert_header(("x-name", name))
            .insert_header(("x-forwarded-for", "marker"))
            .insert_header(("cookie", "marker=marker"))
    };
    let mut seen = Vec::new();
    for (name, fails) in [("marker", false), ("marker", false), ("none", false), ("marker", true)] {
        watch.fail(fails);
        let answer = send(&app, request_of(name)).await;
        assert!(!answer.text().contains("marker"), "{}", answer.text());
        assert!(!answer.text().contains(SECRET), "{}", answer.text());
        seen.push(answer.status);
    }
    assert_eq!(seen, [200, 429, 400, 503]);
}

static CACHED: Policy = Policy::builder("cached").max(1).on_error(OnError::Deny).build();

#[rate_limit(policy = CACHED, by = header("x-name"))]
#[get("/attribute")]
async fn cached() -> &'static str {
    "ok"
}

#[rate_limit(max = 10, name = "late", on_error = "deny")]
#[get("/settled")]
async fn settled(quotas: Quotas) -> Result<&'static str, ratelimit_actix::QuotaError> {
    quotas.limit("misspelled")?.settle(1).await?;
    Ok("ok")
}

const PUBLIC: &str = "public, max-age=3600";

/// A limited app of which each response may be stored unless it says otherwise, and what its rejections say
/// instead.
async fn assert_rejections_say(
    said: &str,
    configure: impl Fn(RateLimitConfigBuilder) -> RateLimitConfigBuilder,
) {
    let config = configure(RateLimitConfig::builder()).build().unwrap();
    for path in ["/attribute", "/middleware"] {
        let (limiter, watch) = watched();
        let by = |req: &HttpRequest| Some(req.headers().get("x-name")?.to_str().ok()?.to_owned());
        let scope = web::scope("/middleware").wrap(RateLimitMiddleware::new(Limit::new(&CACHED).by(by)));
        let app = App::new()
            .wrap(DefaultHeaders::new().add((CACHE_CONTROL, PUBLIC)))
            .app_data(Data::new(limiter.clone()))
            .app_data(config.clone())
            .service(cached)
            .service(scope.route("", web::to(async || "ok")));
        let app = test::init_service(app).await;
        for (name, fails, status) in
            [(Some("a"), false, 200), (Some("a"), false, 429), (None, false, 400), (Some("a"), true, 503)]
        {
            watch.fail(fails);
            let request =
                name.into_iter().fold(get(path), |request, name| request.insert_header(("x-name", name)));
            let answer = send(&app, request).await;
            let said = if status == 200 { PUBLIC } else { said };
            assert_eq!((answer.status, answer.header("cache-control")), (status, Some(said)), "{path}");
        }
    }
}

#[actix_web::test]
async fn no_cache_stores_a_rejection_unless_the_application_says_so() {
    assert_rejections_say("no-store", |config| config).await;
    assert_rejections_say("no-store", |config| config.body_with("text/plain", |_| "slow down".into())).await;
    let with = |fields: &'static [(&str, &str)]| {
        move |config: RateLimitConfigBuilder| {
            config.error_handler(move |rejection, _| {
                let status = actix_web::Error::from(rejection).as_response_error().status_code();
                let mut response = HttpResponse::build(status);
                for &field in fields {
                    response.insert_header(field);
                }
                error::InternalError::from_response("slow down", response.finish()).into()
            })
        }
    };
    assert_rejections_say("no-store", with(&[])).await;
    assert_rejections_say("private, max-age=1", with(&[("cache-control", "private, max-age=1")])).await;

    let app = App::new()
        .wrap(DefaultHeaders::new().add((CACHE_CONTROL, PUBLIC)))
        .app_data(Data::new(fresh()))
        .service(settled);
    let answer = send(&test::init_service(app).await, get("/settled")).await;
    assert_eq!((answer.status, answer.header("cache-control")), (500, Some("no-store")), "not settled");
}
