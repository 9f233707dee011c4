//! `Limit::count`: which responses of a whole app or scope count.

use std::time::Duration;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::middleware::{Next, from_fn};
use actix_web::test::init_service;
use actix_web::web::{self, Data, Path};
use actix_web::{App, Error, HttpResponse, ResponseError, error};
use ratelimit_actix::{
    HeaderStyle, Limit, Policy, Quotas, RateLimitConfig, RateLimitMiddleware, RateLimiter, count, rate_limit,
};
use tests::answer::get;
use tests::log::Log;
use tests::own_process::in_own_process;
use tests::store::{START, fresh, watched};
use tests::{Answer, redis, send};

const MINUTE: Duration = Duration::from_secs(60);

static THREE: Policy = Policy::new("counts-three", 3, MINUTE);
static NINE: Policy = Policy::new("counts-nine", 9, MINUTE);

async fn status(status: Path<u16>) -> HttpResponse {
    HttpResponse::build(StatusCode::from_u16(*status).unwrap()).finish()
}

async fn fails(_: ServiceRequest, _: Next<impl MessageBody>) -> Result<ServiceResponse<BoxBody>, Error> {
    Err(error::ErrorForbidden("not here"))
}

/// Middleware with the policy of three, under which these responses count.
fn counting(count: fn(StatusCode) -> bool) -> RateLimitMiddleware {
    RateLimitMiddleware::new(Limit::new(&THREE).count(count))
}

/// Status and units left after each of the requests.
macro_rules! seen {
    ($app:expr, $($path:expr),+ $(,)?) => {[$({
        let answer = send(&$app, get($path)).await;
        (answer.status, answer.quota().map(|(_, left, _)| left))
    }),+]};
}

async fn only_responses_that_count_are_charged(limiter: impl Fn() -> RateLimiter) {
    let missing = StatusCode::NOT_FOUND;
    for (layer, left) in [
        (RateLimitMiddleware::new(&THREE), [2, 1, 0]),
        (counting(count::failures), [3, 2, 1]),
        (counting(count::successes), [2, 2, 2]),
        (RateLimitMiddleware::new(Limit::new(&THREE).count(move |status| status == missing)), [3, 2, 2]),
    ] {
        let app = App::new().app_data(Data::new(limiter())).wrap(layer);
        let app = init_service(app.route("/{status}", web::get().to(status))).await;
        let expected = [(200, Some(left[0])), (404, Some(left[1])), (503, Some(left[2]))];
        assert_eq!(seen!(app, "/200", "/404", "/503"), expected);
    }
}

#[actix_web::test]
async fn only_responses_of_a_whole_app_that_count_are_charged_in_memory() {
    only_responses_that_count_are_charged(fresh).await;
}

#[actix_web::test]
async fn only_responses_of_a_whole_app_that_count_are_charged_in_redis() {
    if redis::server().is_none() {
        return;
    }
    only_responses_that_count_are_charged(|| redis::server().unwrap().limiter()).await;
}

#[actix_web::test]
async fn an_error_of_an_inner_service_counts_by_its_status() {
    for (counted, left) in [(count::failures as fn(_) -> _, 2), (count::successes, 3)] {
        let app = App::new().app_data(Data::new(fresh())).wrap(counting(counted));
        let app =
            init_service(app.service(web::resource("/fails").wrap(from_fn(fails)).to(async || "never")));
        let app = app.await;
        let failed = actix_web::dev::Service::call(&app, get("/fails").to_request()).await;
        let Err(failed) = failed else { panic!("no error") };
        let response = failed.error_response();
        let fields = ["x-ratelimit-remaining", "x-ratelimit-reset"];
        let values = fields.map(|name| response.headers().get(name).unwrap().to_str().unwrap().to_owned());
        assert_eq!(values[0], left.to_string());
        assert_eq!(values[1] == START.to_string(), left == 3, "full again now");
    }
}

/// An error whose response has another status than it says.
#[derive(Debug)]
struct Odd;

impl std::fmt::Display for Odd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("odd")
    }
}

impl ResponseError for Odd {
    fn error_response(&self) -> HttpResponse {
        HttpResponse::Unauthorized().finish()
    }
}

#[test]
fn an_error_whose_response_has_another_status_is_logged_once() {
    in_own_process(|| {
        let log = Log::of_process();
        actix_web::rt::System::new().block_on(async {
            let odd = async |_: ServiceRequest, _: Next<BoxBody>| Err::<ServiceResponse, _>(Odd.into());
            let app =
                App::new().app_data(Data::new(fresh())).wrap(from_fn(odd)).wrap(counting(count::failures));
            let app = init_service(app).await;
            for _ in 0..2 {
                let failed = actix_web::dev::Service::call(&app, get("/").to_request()).await.unwrap_err();
                assert_eq!(failed.error_response().status(), 401);
            }
        });
        let warnings = log.at(tracing::Level::WARN);
        assert!(warnings.len() == 1 && warnings[0].contains("counts by its `status_code`"), "{warnings:?}");
    });
}

#[rate_limit(max = 9, key = "counts-handler", count = "successes")]
async fn limited(status: Path<u16>, quotas: Quotas) -> HttpResponse {
    quotas.charge_up_to(1).await.unwrap();
    HttpResponse::build(StatusCode::from_u16(*status).unwrap()).finish()
}

/// What is left under each policy, as the client sees it.
fn left_of_each(answer: &Answer) -> String {
    let fields = answer.header("ratelimit").unwrap_or_default();
    let left = fields.split(',').filter_map(|limit| {
        let mut parts = limit.trim().split(';');
        let (name, left) = (parts.next()?, parts.find_map(|part| part.strip_prefix("r="))?);
        Some(format!("{} {left}", name.trim_matches('"')))
    });
    left.collect::<Vec<_>>().join(", ")
}

#[actix_web::test]
async fn each_layer_gives_back_its_own_charges() {
    let config = RateLimitConfig::builder();
    let config = config.headers([HeaderStyle::Draft11]).build().unwrap();
    let outer = RateLimitMiddleware::new(Limit::new(&NINE).count(count::failures));
    let inner = counting(count::successes).and(Policy::new("counts-every", 7, MINUTE));
    let skipped = RateLimitMiddleware::new(Limit::new(&THREE).skip(|_| true).count(count::successes));
    let app = App::new().app_data(Data::new(fresh())).app_data(config).wrap(outer).service(
        web::scope("/inner")
            .wrap(inner)
            .route("/plain/{status}", web::get().to(status))
            .route("/limited/{status}", web::get().to(limited)),
    );
    let app = app.service(web::scope("/skipped").wrap(skipped).route("/{status}", web::get().to(status)));
    let app = init_service(app).await;
    let expected = [
        ("/inner/plain/200", "counts-nine 9, counts-three 2, counts-every 6"),
        ("/inner/plain/500", "counts-nine 8, counts-three 2, counts-every 5"),
        // What the handler charges further is given back as well, wherever the response does not count.
        ("/inner/limited/500", "counts-nine 6, counts-three 2, counts-every 3, counts-handler 9"),
        ("/inner/limited/200", "counts-nine 6, counts-three 0, counts-every 1, counts-handler 7"),
        ("/skipped/500", "counts-nine 5"),
        ("/skipped/200", "counts-nine 5"),
    ];
    for (path, left) in expected {
        let status = path.rsplit('/').next().unwrap().parse().unwrap();
        let answer = send(&app, get(path)).await;
        assert_eq!((answer.status, &*left_of_each(&answer)), (status, left), "{path}");
    }
    // The inner limit has nothing left: its denial is a failure, which counts outside.
    assert_eq!(send(&app, get("/inner/plain/200")).await.status, 429);
    assert_eq!(left_of_each(&send(&app, get("/skipped/200")).await), "counts-nine 4");
}

#[rate_limit(max = 9, key = "counts-skipped", skip = |_: &actix_web::HttpRequest| true, count = "failures")]
async fn without_limit() -> HttpResponse {
    HttpResponse::Ok().finish()
}

async fn teapot(req: ServiceRequest, next: Next<BoxBody>) -> Result<ServiceResponse<BoxBody>, Error> {
    let response = next.call(req).await?;
    Ok(response.into_response(HttpResponse::ImATeapot().finish()))
}

#[actix_web::test]
async fn the_response_that_leaves_the_middleware_decides_and_not_that_of_the_handler() {
    let app = App::new().app_data(Data::new(fresh())).wrap(counting(count::failures));
    let inside = web::resource("/").wrap(from_fn(teapot)).to(without_limit);
    let app = init_service(app.service(inside)).await;
    assert_eq!(seen!(app, "/", "/"), [(418, Some(2)), (418, Some(1))]);
}

#[actix_web::test]
async fn a_charge_stays_where_the_store_does_not_take_it_back() {
    let (limiter, watch) = watched();
    let failing = Data::new(watch.clone());
    let handler = async |watch: Data<std::sync::Arc<tests::store::Watch>>| {
        watch.fail(true);
        "ok"
    };
    let app = App::new().app_data(Data::new(limiter)).app_data(failing).wrap(counting(count::failures));
    let app = init_service(app.route("/", web::get().to(handler))).await;
    assert_eq!(seen!(app, "/"), [(200, Some(2))], "as charged");
    assert_eq!((watch.calls(), watch.refunds(), watch.peeks()), (1, 1, 0));
}
