//! Checks that handlers make themselves: they count callers as attributes do, and denials are answered as
//! those of attributes.

use std::time::Duration;

use actix_web::body::BoxBody;
use actix_web::dev::{Service, ServiceRequest, ServiceResponse};
use actix_web::error::{ErrorForbidden, InternalError};
use actix_web::http::StatusCode;
use actix_web::http::header::{ACCEPT, LOCATION};
use actix_web::middleware::{Next, from_fn};
use actix_web::test::{TestRequest, init_service};
use actix_web::web::{self, Data};
use actix_web::{App, Error, HttpRequest, HttpResponse, Result, get};
use ratelimit_actix::{
    Algorithm, BodyStyle, Caller, Check, GroupOutcome, HeaderStyle, IntoCaller, Limit, OnError, Policy,
    PolicyBuilder, RateLimitConfig, RateLimitConfigBuilder, RateLimitMiddleware, RateLimiter, Rejection,
    caller, count, rate_limit,
};
use tests::answer::{Answer, by, get};
use tests::store::{clocked, fresh, watched};
use tests::{send, service};

const MINUTE: PolicyBuilder = Policy::builder("minute").max(2).on_error(OnError::Deny);
static LIMIT: Policy = MINUTE.window(Duration::from_secs(60)).build();
const HOURS: PolicyBuilder = Policy::builder("hour").max(2).algorithm(Algorithm::FixedWindow);
static HOUR: Policy = HOURS.window(Duration::from_secs(3600)).build();

#[rate_limit(policy = LIMIT)]
#[rate_limit(policy = HOUR, by = global)]
#[get("/attribute")]
async fn attribute() -> &'static str {
    "ok"
}

#[get("/hand")]
async fn hand(req: HttpRequest, limiter: Data<RateLimiter>) -> Result<&'static str> {
    let by = caller::ip(&req);
    let checks = [Check::new(&LIMIT, &by), Check::new(&HOUR, &[0_u8])];
    Rejection::unless_allowed(&req, &checks, &limiter.check_all(&checks).await)?;
    Ok("ok")
}

/// Everything that a client sees.
fn seen(answer: &Answer) -> (u16, Vec<(String, String)>, &str) {
    let fields = answer.headers.iter();
    let mut fields: Vec<_> =
        fields.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    fields.sort();
    (answer.status, fields, &answer.body)
}

/// The answer to a denial by hand, which is that of the attribute. Addresses of one network of IPv6 have
/// taken all units through the attribute.
async fn assert_alike(config: RateLimitConfigBuilder) -> Answer {
    let app = App::new().app_data(Data::new(clocked().0)).app_data(config.build().unwrap());
    let app = init_service(app.service(attribute).service(hand)).await;
    let from =
        |host: u8, path| by(&format!("[2001:db8:1:2::{host}]:1"), path).insert_header((ACCEPT, "text/plain"));
    for host in [1, 2] {
        assert_eq!(send(&app, from(host, "/attribute")).await.status, 200);
    }
    let (expected, answer) = (send(&app, from(3, "/attribute")).await, send(&app, from(4, "/hand")).await);
    assert_ne!(expected.status, 200);
    assert_eq!(seen(&answer), seen(&expected));
    answer
}

#[actix_web::test]
async fn a_denial_by_hand_is_answered_as_one_of_an_attribute() {
    let config = RateLimitConfig::builder;
    let answer = assert_alike(config()).await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("2760")));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.error.as_deref(), Some("RateLimited { limit: \"hour\", retry_after: 2760s }"));

    let answer = assert_alike(config().headers([HeaderStyle::Draft11]).body(BodyStyle::Problem)).await;
    assert!(answer.body.contains(r#""violated-policies":["minute","hour"]"#), "{}", answer.body);
    let policy = r#""hour";q=2;w=3600, "minute";q=2;w=60"#;
    assert_eq!(answer.header("ratelimit-policy").map(sorted), Some(sorted(policy)));

    assert_alike(config().headers([]).body_by_accept(true)).await;
    assert_alike(config().body_with("text/plain", |info| info.violated_policies().join(" "))).await;
    assert_alike(config().error_handler(|rejection, _| rejection.into())).await;
    let own = config().error_handler(|rejection, _| {
        let response = HttpResponse::PaymentRequired().body("pay");
        InternalError::from_response(rejection, response).into()
    });
    let answer = assert_alike(own).await;
    assert_eq!(
        (answer.status, answer.body.as_str(), answer.header("retry-after")),
        (402, "pay", Some("2760"))
    );
}

/// The members of a list, sorted.
fn sorted(list: &str) -> Vec<String> {
    let mut members: Vec<_> = list.split(", ").map(str::to_owned).collect();
    members.sort();
    members
}

#[actix_web::test]
async fn without_an_answer_of_the_store_a_check_by_hand_fails_as_an_attribute_does() {
    let (limiter, watch) = watched();
    let app = service!(limiter, attribute, hand);
    watch.fail(true);
    let [expected, answer] = [send(&app, get("/attribute")).await, send(&app, get("/hand")).await];
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    assert_eq!(seen(&answer), seen(&expected));
}

#[rate_limit(max = 9, count = |status: StatusCode| status == 401)]
#[get("/guess")]
async fn guess(req: HttpRequest, limiter: Data<RateLimiter>) -> Result<HttpResponse> {
    let checked = limiter.check(&LIMIT, "account").await.map(GroupOutcome::from);
    Rejection::unless_allowed(&req, &[Check::new(&LIMIT, "account")], &checked)?;
    Ok(HttpResponse::Unauthorized().finish())
}

#[actix_web::test]
async fn the_fields_show_a_denial_by_hand_and_the_limit_around_it_gets_its_unit_back() {
    let outer = Policy::new("outer", 9, Duration::from_secs(60));
    let outer = RateLimitMiddleware::new(Limit::new(outer).count(|status| status == 401));
    let scope = web::scope("/scope").wrap(outer).service(guess);
    let app = init_service(App::new().app_data(Data::new(fresh())).service(scope).service(guess)).await;
    for path in ["/guess", "/scope/guess"] {
        let answer = send(&app, get(path)).await;
        assert_eq!((answer.status, answer.header("x-ratelimit-limit")), (401, Some("9")), "{path}");
    }
    for _ in 0..9 {
        for path in ["/guess", "/scope/guess"] {
            let denied = send(&app, get(path)).await;
            assert_eq!((denied.status, denied.header("x-ratelimit-limit")), (429, Some("2")), "{path}");
        }
    }
}

#[rate_limit(policy = LIMIT, by = header("x-account"), on_missing = "anonymous")]
#[get("/account")]
async fn account() -> &'static str {
    "ok"
}

#[actix_web::test]
async fn the_bytes_of_a_caller_are_those_that_an_attribute_counts() {
    let limiter = fresh();
    let app = service!(limiter, account);
    let callers: [(TestRequest, Caller); 2] = [
        (get("/account").insert_header(("x-account", "a")), "a".into_caller()),
        (get("/account"), None::<&str>.into_caller()),
    ];
    for (request, caller) in callers {
        assert_eq!(send(&app, request).await.status, 200);
        assert_eq!(limiter.check(&LIMIT, &caller).await.unwrap().remaining(), 0);
    }
    let other = limiter.check(&LIMIT, "b".into_caller()).await.unwrap();
    assert_eq!(other.remaining(), 1);
}

#[actix_web::test]
async fn a_redirect_gets_no_retry_after_that_it_does_not_set() {
    for (own, expected) in [(None, None), (Some(("retry-after", "7")), Some("7"))] {
        let to_login = move |rejection: Rejection, _: &HttpRequest| -> Error {
            let mut response = HttpResponse::SeeOther();
            response.insert_header((LOCATION, "/login"));
            if let Some(field) = own {
                response.insert_header(field);
            }
            InternalError::from_response(rejection, response.finish()).into()
        };
        let config = RateLimitConfig::builder().error_handler(to_login);
        let answer = assert_alike(config).await;
        assert_eq!((answer.status, answer.header("retry-after")), (303, expected));
        assert!(answer.quota().is_some());
    }
}

fn two_failures() -> RateLimitMiddleware {
    RateLimitMiddleware::new(Limit::new(&LIMIT).count(count::failures))
}

#[allow(clippy::unused_async, reason = "a function of middleware is async")]
async fn reject_all(_: ServiceRequest, _: Next<BoxBody>) -> Result<ServiceResponse> {
    Err(ErrorForbidden("no"))
}

#[get("/wrapped", wrap = "from_fn(reject_all)", wrap = "two_failures()")]
async fn wrapped() -> &'static str {
    "ok"
}

#[actix_web::test]
async fn middleware_in_a_route_attribute_counts_what_an_earlier_wrap_rejects() {
    let app = service!(fresh(), wrapped);
    for status in [403, 403, 429] {
        let answer = app.call(get("/wrapped").to_request()).await;
        let answered =
            answer.map_or_else(|error| error.as_response_error().status_code(), |answer| answer.status());
        assert_eq!(answered, status);
    }
}
