//! The `RateLimitMiddleware`, around apps, scopes and resources, with and without limits of the handlers in
//! it.

mod callers;
mod counts;

use std::time::Duration;

use actix_web::body::MessageBody;
use actix_web::dev::{Service, ServiceRequest, ServiceResponse};
use actix_web::error::ErrorForbidden;
use actix_web::http::{Method, StatusCode};
use actix_web::middleware::{
    ErrorHandlerResponse, ErrorHandlers, Next, NormalizePath, TrailingSlash, from_fn,
};
use actix_web::test::init_service;
use actix_web::web::{self, Data, Path};
use actix_web::{App, Error, HttpRequest, HttpResponse, get};
use ratelimit_actix::{
    HeaderStyle, Limit, Policy, RateLimitConfig, RateLimitMiddleware, RateLimited, RateLimiter, Unlimited,
    caller, rate_limit,
};
use tests::answer::{by, get, request, statuses};
use tests::store::{clocked, fresh, watched};
use tests::{Answer, send};

const MINUTE: Duration = Duration::from_secs(60);

static TWO: Policy =
    Policy::builder("two").max(2).window(MINUTE).on_error(ratelimit_core::OnError::Deny).build();
static FIVE: Policy = Policy::new("five", 5, MINUTE);

async fn ok() -> &'static str {
    "ok"
}

#[rate_limit(max = 1, window = "1h", key = "inner")]
async fn limited() -> &'static str {
    "limited"
}

#[actix_web::test]
async fn the_middleware_limits_an_app_a_scope_and_a_resource() {
    let two = || RateLimitMiddleware::new(&TWO);
    let app = init_service(
        App::new()
            .app_data(Data::new(fresh()))
            .wrap(two())
            .route("/a", web::get().to(ok))
            .route("/b", web::get().to(ok)),
    )
    .await;
    assert_eq!(statuses(&app, "/a", 1).await, [200]);
    assert_eq!(statuses(&app, "/b", 2).await, [200, 429]);
    assert_eq!(send(&app, by("192.0.2.2:1", "/a")).await.status, 200);

    let app = init_service(
        App::new()
            .app_data(Data::new(fresh()))
            .service(web::scope("/scope").wrap(two()).route("/{id}", web::get().to(ok)))
            .service(
                web::resource("/resource")
                    .wrap(RateLimitMiddleware::new(Limit::new(&TWO).by(|_: &HttpRequest| "all")))
                    .to(ok),
            )
            .route("/free", web::get().to(ok)),
    )
    .await;
    assert_eq!(statuses(&app, "/scope/1", 3).await, [200, 200, 429]);
    assert_eq!(statuses(&app, "/resource", 3).await, [200, 200, 429]);
    assert_eq!(statuses(&app, "/free", 3).await, [200, 200, 200]);
}

#[actix_web::test]
async fn every_response_shows_the_quota() {
    async fn failing() -> Result<&'static str, Error> {
        Err(ErrorForbidden("no"))
    }
    let (limiter, clock) = clocked();
    let scope = web::scope("/s")
        .wrap(RateLimitMiddleware::new(&FIVE))
        .route("/ok", web::get().to(ok))
        .route("/failing", web::get().to(failing))
        .route(
            "/own",
            web::get().to(async || HttpResponse::Ok().insert_header(("x-ratelimit-limit", "9")).finish()),
        );
    let app = init_service(App::new().app_data(Data::new(limiter)).service(scope)).await;
    clock.advance(Duration::from_secs(1));
    let cases = [("/s/ok", 200), ("/s/failing", 403), ("/s/nowhere", 404), ("/s/own", 200), ("/s/ok", 200)];
    for ((path, status), remaining) in cases.into_iter().zip((0..5).rev()) {
        let answer = send(&app, get(path)).await;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(
            (answer.header("x-ratelimit-limit"), answer.quota().unwrap().1),
            (Some("5"), remaining),
            "{path}"
        );
    }
    let denied = send(&app, get("/s/ok")).await;
    assert_eq!((denied.status, denied.quota().unwrap().1), (429, 0));
    assert!(denied.header("retry-after").is_some());
    assert!(denied.body.contains("Rate limit exceeded"), "{}", denied.body);
    assert!(denied.error.unwrap().starts_with("RateLimited"));
}

#[actix_web::test]
async fn limits_of_middleware_and_handler_share_one_set_of_fields() {
    let config = RateLimitConfig::builder().headers([HeaderStyle::LegacyUnix, HeaderStyle::Draft11]);
    let scope = web::scope("/s")
        .wrap(RateLimitMiddleware::new(&FIVE))
        .route("/plain", web::get().to(ok))
        .route("/limited", web::get().to(limited));
    let app = App::new().app_data(Data::new(fresh())).app_data(config.build().unwrap()).service(scope);
    let app = init_service(app).await;

    let shown = |answer: &Answer| {
        let limits = answer.header("ratelimit-policy").unwrap().to_owned();
        (answer.status, limits, answer.quota().map(|(limit, remaining, _)| (limit, remaining)))
    };
    let five = r#""five";q=5;w=60"#.to_owned();
    let both = format!(r#"{five}, "inner";q=1;w=3600"#);
    assert_eq!(shown(&send(&app, get("/s/plain")).await), (200, five.clone(), Some((5, 4))));
    // The tighter one is in the legacy fields.
    assert_eq!(shown(&send(&app, get("/s/limited")).await), (200, both.clone(), Some((1, 0))));
    let denied = send(&app, get("/s/limited")).await;
    assert_eq!(shown(&denied), (429, both.clone(), Some((1, 0))));
    assert!(denied.header("ratelimit").unwrap().starts_with(r#""five";r=2;t="#), "{:?}", denied.headers);
    // The middleware's stay charged when the handler's deny.
    assert_eq!(shown(&send(&app, get("/s/plain")).await), (200, five.clone(), Some((5, 1))));
    send(&app, get("/s/plain")).await;
    // When the middleware denies, the limits of the handler are not checked.
    assert_eq!(shown(&send(&app, get("/s/limited")).await), (429, five, Some((5, 0))));
}

#[actix_web::test]
async fn nested_scopes_obey_all_outer_limits() {
    let (limiter, watch) = watched();
    let inner = web::scope("/inner").wrap(RateLimitMiddleware::new(&TWO)).route("", web::get().to(ok));
    let outer = web::scope("/outer")
        .wrap(RateLimitMiddleware::new(&FIVE))
        .service(inner)
        .route("", web::get().to(ok));
    let app = init_service(App::new().app_data(Data::new(limiter)).service(outer)).await;
    assert_eq!(statuses(&app, "/outer/inner", 3).await, [200, 200, 429]);
    assert_eq!(statuses(&app, "/outer", 3).await, [200, 200, 429]);
    assert_eq!(watch.calls(), 3 * 2 + 3);
}

#[actix_web::test]
async fn several_limits_are_one_group() {
    let (limiter, watch) = watched();
    let limit = RateLimitMiddleware::new(Limit::new(&FIVE).cost(|_| 2))
        .and(Limit::new(&TWO).by(caller::global).cost(|_| 2));
    let app = App::new().app_data(Data::new(limiter)).wrap(limit).route("/", web::get().to(ok));
    let app = init_service(app).await;
    assert_eq!(send(&app, get("/")).await.status, 200);
    assert_eq!((watch.tries(), watch.calls(), watch.limits()), (1, 1, 2));
    let denied = send(&app, by("192.0.2.2:1", "/")).await;
    assert_eq!((denied.status, denied.header("x-ratelimit-limit")), (429, Some("2")));
}

// ---- What is limited --------------------------------------------------------------------------------------

#[get("/{org}/users/{id}")]
async fn user(path: Path<(String, u64)>) -> String {
    format!("{} {}", path.0, path.1)
}

#[get("/{org}/health")]
async fn health(org: Path<String>) -> String {
    org.into_inner()
}

/// How many of three requests for each path are let through.
async fn passed(limit: RateLimitMiddleware, paths: &[&str]) -> Vec<usize> {
    let app = App::new()
        .app_data(Data::new(fresh()))
        .service(web::scope("/api").wrap(limit).service((user, health)).default_service(web::to(ok)));
    let app = init_service(app).await;
    let mut passed = Vec::new();
    for (i, path) in paths.iter().enumerate() {
        let mut count = 0;
        for _ in 0..3 {
            // Each path by a client of its own, so that all begin with a full quota.
            let answer = send(&app, by(&format!("192.0.2.{i}:1"), path)).await;
            count += usize::from(answer.status == 200);
        }
        passed.push(count);
    }
    passed
}

#[actix_web::test]
async fn excluded_routes_and_paths_match_as_the_router_matches() {
    let two = || RateLimitMiddleware::new(&TWO);
    let paths = [
        "/api/a/users/1",
        "/api/a/health",
        "/api/b/%68ealth",
        "/api/a/healthy",
        "/api/health/a",
        "/api//a/health",
        "/api/a/users%2F1",
    ];
    assert_eq!(passed(two(), &paths).await, [2; 7]);
    let without_health = two().exclude_pattern("/api/{org}/health");
    assert_eq!(passed(without_health, &paths).await, [2, 3, 3, 2, 2, 2, 2]);
    assert_eq!(passed(two().exclude_prefix("/api/a"), &paths).await, [3, 3, 2, 3, 2, 2, 3]);
    let only_users = two().include_pattern("/api/{org}/users/{id}");
    assert_eq!(passed(only_users, &paths).await, [2, 3, 3, 3, 3, 3, 3]);
    let below_a = two().include_prefix("/api/a/").exclude_pattern("/api/{org}/health");
    // With its slashes merged the sixth is included, but it is not excluded for that.
    assert_eq!(passed(below_a, &paths).await, [2, 3, 3, 2, 3, 2, 2]);
    // A spelling that reaches the same handler is no way around.
    let spelled = ["/api/a/users/1", "/api/%61/users/1", "/%61pi/a/users/1", "/api/a/%75sers/1"];
    assert_eq!(passed(two().include_prefix("/api/a"), &spelled).await, [2; 4]);
    assert_eq!(passed(two().include_pattern("/api/{org}/users/{id}"), &spelled).await, [2; 4]);
}

#[actix_web::test]
async fn chosen_methods_are_limited_and_get_includes_head() {
    let limit = RateLimitMiddleware::new(&TWO).methods([Method::GET]);
    let app = App::new().app_data(Data::new(fresh())).wrap(limit).service(web::resource("/").to(ok));
    let app = init_service(app).await;
    for (method, status) in [
        (Method::POST, 200),
        (Method::GET, 200),
        (Method::HEAD, 200),
        (Method::POST, 200),
        (Method::HEAD, 429),
        (Method::GET, 429),
        (Method::OPTIONS, 200),
        (Method::POST, 200),
    ] {
        assert_eq!(send(&app, request(method.clone(), "/")).await.status, status, "{method}");
    }
}

// ---- With other middleware --------------------------------------------------------------------------------

async fn forbid(_: ServiceRequest, _: Next<impl MessageBody + 'static>) -> Result<ServiceResponse, Error> {
    Err(ErrorForbidden("forbidden"))
}

#[actix_web::test]
async fn an_error_of_inner_middleware_shows_the_quota_in_its_response() {
    let scope = web::scope("/s").wrap(from_fn(forbid)).wrap(RateLimitMiddleware::new(&TWO));
    let scope = scope.wrap(RateLimitMiddleware::new(&FIVE)).route("", web::get().to(ok));
    let app = init_service(App::new().app_data(Data::new(fresh())).service(scope)).await;
    let error = app.call(get("/s").to_request()).await.err().unwrap();
    let response = error.error_response();
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    let header = |name| response.headers().get(name).unwrap().to_str().unwrap();
    assert_eq!((header("x-ratelimit-limit"), header("x-ratelimit-remaining")), ("2", "1"));
    assert_eq!(response.headers().get_all("x-ratelimit-limit").count(), 1);
}

#[actix_web::test]
async fn error_handlers_see_a_denial_and_can_change_it() {
    let handlers =
        ErrorHandlers::new().handler(StatusCode::TOO_MANY_REQUESTS, |mut response: ServiceResponse<_>| {
            let wait = response.response().error().unwrap().as_error::<RateLimited>().unwrap().retry_after();
            assert!(wait.is_some());
            *response.response_mut().status_mut() = StatusCode::PAYMENT_REQUIRED;
            Ok(ErrorHandlerResponse::Response(response.map_into_left_body()))
        });
    let limit = RateLimitMiddleware::new(&TWO);
    let app = App::new().app_data(Data::new(fresh())).wrap(limit).wrap(handlers).route("/", web::to(ok));
    let app = init_service(app).await;
    assert_eq!(statuses(&app, "/", 3).await, [200, 200, 402]);
}

/// Twenty spellings of one path: with more slashes in front, within and at the end.
fn spellings(of: &str) -> Vec<String> {
    let spelling = |i: usize| format!("{}{}", of.replace('/', &"/".repeat(1 + i % 4)), "/".repeat(i / 4 % 3));
    (0..20).map(spelling).collect()
}

#[actix_web::test]
async fn no_path_spelling_bypasses_an_inclusion_around_or_inside_path_rewriting() {
    // What merges slashes only leaves the one at the end.
    let rewritings = [
        (TrailingSlash::Trim, "", &[][..]),
        (TrailingSlash::Always, "/", &[]),
        (TrailingSlash::MergeOnly, "", &[404]),
    ];
    for ((rewriting, ends, also), limit_runs_first) in
        rewritings.into_iter().flat_map(|rewriting| [(rewriting, true), (rewriting, false)])
    {
        let pattern = format!("/in/{{name}}{ends}");
        for limit in [
            RateLimitMiddleware::new(&TWO).include_prefix("/in/login"),
            RateLimitMiddleware::new(&TWO).include_prefix("/in/login/"),
            RateLimitMiddleware::new(&TWO).include_pattern(&pattern),
        ] {
            let case = format!("{limit:?} first: {limit_runs_first}");
            let route = App::new().app_data(Data::new(fresh())).route(&pattern, web::get().to(ok));
            let (mut passed, mut denied) = (0, 0);
            macro_rules! count {
                ($app:expr) => {{
                    let app = init_service($app).await;
                    for path in spellings("/in/login") {
                        match send(&app, get(&path)).await.status {
                            200 => passed += 1,
                            429 => denied += 1,
                            other => assert!(also.contains(&other), "{case} {path}: {other}"),
                        }
                    }
                    // No spelling of that path to the router, which knows no dot segments.
                    assert_eq!(send(&app, get("/./in/login")).await.status, 404, "{case}");
                }};
            }
            if limit_runs_first {
                count!(route.wrap(NormalizePath::new(rewriting)).wrap(limit));
            } else {
                count!(route.wrap(limit).wrap(NormalizePath::new(rewriting)));
            }
            assert!(passed <= 2, "{case}: {passed} passed");
            assert!(passed + denied == 20 || !also.is_empty(), "{case}: {denied} denied");
        }
    }
}

#[actix_web::test]
async fn no_path_spelling_bypasses_a_limit_through_an_exclusion() {
    // The path with a slash at its end is that of the excluded route, until it is rewritten to that of the
    // other.
    let limit = RateLimitMiddleware::new(&TWO).exclude_pattern("/files/{path:.*}").exclude_prefix("/health");
    let app = App::new().app_data(Data::new(fresh())).wrap(NormalizePath::trim()).wrap(limit);
    let app = app.route("/files", web::get().to(ok)).route("/files/{path:.*}", web::get().to(ok));
    let app = init_service(app.route("/health", web::get().to(ok))).await;
    for path in ["/health", "/files/a", "/files/a/b", "/health/", "/files//a", "/files/a/"] {
        assert_eq!(send(&app, get(path)).await.quota(), None, "{path}");
    }
    for (path, status) in [("/files/", 200), ("//health", 200), ("/files//", 429), ("//health", 429)] {
        assert_eq!(send(&app, get(path)).await.status, status, "{path}");
    }
}

#[actix_web::test]
async fn header_fields_follow_the_settings_nearest_to_the_handler() {
    let draft = || RateLimitConfig::builder().headers([HeaderStyle::Draft11]).build().unwrap();
    // The scope is not known yet when the middleware around the app checks.
    let own = web::scope("/own").app_data(draft()).route("/plain", web::get().to(ok));
    let app = App::new().app_data(Data::new(fresh())).wrap(RateLimitMiddleware::new(&FIVE));
    let app = init_service(app.service(own).route("/", web::get().to(ok))).await;
    let answer = send(&app, get("/own/plain")).await;
    assert_eq!((answer.status, answer.quota()), (200, None));
    assert!(answer.header("ratelimit").unwrap().starts_with(r#""five";r=4"#), "{answer:?}");
    let answer = send(&app, get("/")).await;
    assert_eq!((answer.quota().unwrap().1, answer.header("ratelimit")), (3, None));
}

// ---- Which limiter ----------------------------------------------------------------------------------------

/// How a limiter is put into the data of an app, a scope or a resource.
#[derive(Clone, Copy, Debug)]
enum Form {
    Plain,
    Data,
}

macro_rules! with_limiter {
    ($to:expr, $form:expr, $limiter:expr) => {
        match ($form, $limiter) {
            (_, None) => $to,
            (Form::Plain, Some(limiter)) => $to.app_data(limiter),
            (Form::Data, Some(limiter)) => $to.app_data(Data::new(limiter)),
        }
    };
}

#[actix_web::test]
async fn the_nearest_limiter_counts_for_both_forms_of_app_data() {
    for (form, limited_by_handler) in
        [(Form::Plain, true), (Form::Plain, false), (Form::Data, true), (Form::Data, false)]
    {
        // From the app alone to all three levels: the innermost counts.
        for levels in [[true, false, false], [true, true, false], [true, true, true], [false, false, true]] {
            let stores = [watched(), watched(), watched()];
            let at = |level: usize| levels[level].then(|| stores[level].0.clone());
            let resource = with_limiter!(web::resource("/r"), form, at(2));
            let scope = with_limiter!(web::scope("/s"), form, at(1));
            let app = with_limiter!(App::new(), form, at(0));
            let statuses = if limited_by_handler {
                let app = init_service(app.service(scope.service(resource.to(limited)))).await;
                statuses(&app, "/s/r", 2).await
            } else {
                let resource = resource.wrap(RateLimitMiddleware::new(Limit::new(&TWO).cost(|_| 2))).to(ok);
                let app = init_service(app.service(scope.service(resource))).await;
                statuses(&app, "/s/r", 2).await
            };
            let case = format!("{form:?} {limited_by_handler} {levels:?}");
            assert_eq!(statuses, [200, 429], "{case}");
            let nearest = levels.iter().rposition(|is_there| *is_there).unwrap();
            let calls = stores.each_ref().map(|(_, watch)| watch.calls());
            assert_eq!(calls[nearest], 2, "{case}: {calls:?}");
            assert_eq!(calls.iter().sum::<usize>(), 2, "{case}: {calls:?}");
        }
    }
}

#[actix_web::test]
async fn an_unlimited_store_passes_all_requests_with_a_full_quota() {
    let app = App::new().app_data(RateLimiter::new(Unlimited)).route("/", web::get().to(limited));
    let app = init_service(app.wrap(RateLimitMiddleware::new(&TWO))).await;
    for _ in 0..5 {
        let answer = send(&app, get("/")).await;
        let (limit, remaining, _) = answer.quota().unwrap();
        assert_eq!((answer.status, limit, remaining), (200, 1, 1));
    }
}
