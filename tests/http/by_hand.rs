//! Checks that handlers make themselves: they count callers as attributes do, and denials are answered as
//! those of attributes.

mod errors;

use std::time::Duration;

use actix_web::body::BoxBody;
use actix_web::dev::{Service, ServiceRequest, ServiceResponse};
use actix_web::error::{ErrorForbidden, InternalError};
use actix_web::http::StatusCode;
use actix_web::http::header::{ACCEPT, LOCATION};
use actix_web::middleware::{Next, from_fn};
use actix_web::test::{TestRequest, init_service};
use actix_web::web::{self, Data};
use actix_web::{App, Error, HttpRequest, HttpResponse, ResponseError, Result, get};
use ratelimit_actix::{
    Algorithm, BodyStyle, Caller, Check, HeaderStyle, IntoCaller, Limit, MAX_GROUP, MemoryStore, OnError,
    Overrides, Policy, PolicyBuilder, Quotas, RateLimitConfig, RateLimitConfigBuilder, RateLimitMiddleware,
    RateLimiter, Rejection, admit, caller, count, nearest_limiter, rate_limit,
};
use tests::answer::{Answer, by, get, request, statuses};
use tests::log::Log;
use tests::own_process::in_own_process;
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
async fn hand(req: HttpRequest) -> Result<&'static str> {
    let [by, everyone] = [caller::ip(&req), caller::global(&req)];
    admit(&req, [Check::new(&LIMIT, &by), Check::new(&HOUR, &everyone)]).await?;
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
    let app = init_service(app.service(attribute).service(hand).service(errors::own)).await;
    let from =
        |host: u8, path| by(&format!("[2001:db8:1:2::{host}]:1"), path).insert_header((ACCEPT, "text/plain"));
    for host in [1, 2] {
        assert_eq!(send(&app, from(host, "/attribute")).await.status, 200);
    }
    let (expected, answer) = (send(&app, from(3, "/attribute")).await, send(&app, from(4, "/hand")).await);
    assert_ne!(expected.status, 200);
    assert_eq!(seen(&answer), seen(&expected));
    assert_eq!(seen(&send(&app, from(5, "/own")).await), seen(&expected), "in an error of the service");
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
    let app = service!(limiter, attribute, hand, errors::own);
    watch.fail(true);
    let expected = send(&app, get("/attribute")).await;
    for path in ["/hand", "/own"] {
        let answer = send(&app, get(path)).await;
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{path}");
        assert_eq!(seen(&answer), seen(&expected), "{path}");
    }
}

#[rate_limit(max = 9, count = |status: StatusCode| status == 401)]
#[get("/guess")]
async fn guess(req: HttpRequest) -> Result<HttpResponse> {
    admit(&req, [Check::new(&LIMIT, "account")]).await?;
    Ok(HttpResponse::Unauthorized().finish())
}

#[actix_web::test]
async fn the_fields_show_a_denial_by_hand_and_the_limit_around_it_gets_its_unit_back() {
    let outer = Policy::new("outer", 9, Duration::from_secs(60));
    let outer = RateLimitMiddleware::new(Limit::new(outer).count(|status| status == 401));
    let scope = web::scope("/scope").wrap(outer).service(guess);
    let app = init_service(App::new().app_data(Data::new(fresh())).service(scope).service(guess)).await;
    for (path, left) in [("/guess", 1), ("/scope/guess", 0)] {
        let answer = send(&app, get(path)).await;
        assert_eq!(answer.status, 401, "{path}");
        assert_eq!(
            answer.quota().map(|(limit, left, _)| (limit, left)),
            Some((2, left)),
            "{path}: the tightest"
        );
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

/// The quotas of the request, and what is left under each.
fn left(quotas: &Quotas) -> String {
    let quotas = quotas.to_vec();
    let left = quotas.iter().map(|quota| format!("{} {}", quota.name(), quota.outcome().remaining()));
    left.collect::<Vec<_>>().join(", ")
}

const ROWS: PolicyBuilder = Policy::builder("rows").algorithm(Algorithm::FixedWindow);
static HUNDRED: Policy = ROWS.max(100).window(Duration::from_secs(3600)).build();

#[rate_limit(max = 50, name = "requests")]
#[get("/rows/{rows}")]
async fn rows(req: HttpRequest, rows: web::Path<u64>, quotas: Quotas) -> Result<String> {
    let admitted = admit(&req, [Check::new(&HUNDRED, "account").with_cost(*rows)]).await?;
    let outcome = admitted.outcome().outcomes()[0].remaining();
    quotas.limit("rows")?.settle(rows.div_ceil(2)).await?;
    let settled = left(&quotas);
    let charged = quotas.charge_up_to(100).await?;
    Ok(format!("{outcome}; {settled}; {charged}; {}", left(&quotas)))
}

#[actix_web::test]
async fn what_is_admitted_by_hand_is_settled_and_charged_as_other_limits_of_the_request() {
    let app = service!(fresh(), rows);
    let answer = send(&app, get("/rows/60")).await;
    assert_eq!(answer.body, "40; requests 49, rows 70; 49; requests 0, rows 0");
    let quota = answer.quota().map(|(limit, left, _)| (limit, left));
    assert_eq!(quota, Some((100, 0)), "of both without units, the longer wait");
}

static ONE: Policy = Policy::concurrency("at-a-time", 1);

#[get("/held")]
async fn held(req: HttpRequest) -> Result<String> {
    let slot = admit(&req, [Check::new(&ONE, "account"), Check::new(&LIMIT, "account")]).await?.into_slots();
    let busy = admit(&req, [Check::new(&ONE, "account")]).await.unwrap_err();
    let wait = busy.rejection().retry_after();
    drop(slot);
    Ok(format!("{wait:?} {}", admit(&req, [Check::new(&ONE, "account")]).await.is_ok()))
}

#[actix_web::test]
async fn a_handler_holds_the_slot_that_it_took_by_hand() {
    let app = service!(fresh(), held);
    for _ in 0..2 {
        assert_eq!(send(&app, get("/held")).await.body, "None true", "none is left from before");
    }
    assert_eq!(send(&app, get("/held")).await.status, 429, "by the rate");
}

static FAILURES: Policy = Policy::builder("failures")
    .max(2)
    .window(Duration::from_secs(60))
    .block(Duration::from_secs(600))
    .build();

/// Charges what it looked at if it fails.
#[rate_limit(max = 50, name = "requests")]
#[get("/look/{fails}")]
async fn look(req: HttpRequest, fails: web::Path<bool>, quotas: Quotas) -> Result<String> {
    let look = admit(&req, [Check::new(&FAILURES, "account").uncharged(), Check::new(&HUNDRED, "account")]);
    let admitted = look.await?;
    if *fails {
        admitted.charge().await;
    }
    Ok(left(&quotas))
}

#[actix_web::test]
async fn a_look_is_charged_when_the_handler_says_so_and_shown_where_it_denies() {
    let limiters = [fresh(), watched().0];
    for limiter in limiters {
        let app = service!(limiter, look);
        let cases = [("true", "1"), ("false", "1"), ("true", "0")];
        for (number, (fails, failures)) in cases.into_iter().enumerate() {
            let answer = send(&app, get(&format!("/look/{fails}"))).await;
            let (requests, charged) = (49 - number, 99 - number);
            assert_eq!(answer.body, format!("requests {requests}, failures {failures}, rows {charged}"));
            assert_eq!(answer.quota().unwrap().0, 50, "the look is not shown");
        }
        let denied = send(&app, get("/look/false")).await;
        assert_eq!((denied.status, denied.header("retry-after")), (429, Some("600")), "and blocked");
        assert_eq!(denied.header("x-ratelimit-limit"), Some("2"));
        assert_eq!(limiter.peek(&HUNDRED, "account").await.unwrap().remaining(), 97);
    }
}

#[actix_web::test]
async fn clients_and_methods_without_limits_have_none_by_hand() {
    let limiter = fresh();
    let config = RateLimitConfig::builder().exempt("10.0.0.7").build().unwrap();
    let app = App::new().app_data(limiter.clone()).app_data(config);
    let app = init_service(app.service(web::resource("/").to(async |req: HttpRequest, quotas: Quotas| {
        let admitted = admit(&req, [Check::new(&LIMIT, "account").with_cost(2)]).await?;
        quotas.limit("minute")?.settle(1).await?;
        Ok::<_, Error>(admitted.outcome().outcomes().len().to_string())
    })));
    let app = app.await;
    for _ in 0..3 {
        assert_eq!(send(&app, by("10.0.0.7:1", "/")).await.body, "0");
        assert_eq!(send(&app, request(actix_web::http::Method::OPTIONS, "/")).await.body, "0");
    }
    assert_eq!(limiter.peek(&LIMIT, "account").await.unwrap().remaining(), 2);
    assert_eq!(send(&app, get("/")).await.body, "1");
}

#[actix_web::test]
async fn checks_by_hand_follow_overrides() {
    let overrides = "[limit.minute]\nmax = 3\n[limit.minute.callers]\n'text alice' = { max = 1 }\n'text off' = { mode = 'off' }";
    let overrides: Overrides = overrides.parse().unwrap();
    let builder = RateLimiter::builder(MemoryStore::new()).policies([&LIMIT]);
    let limiter = builder.overrides(overrides).try_build().unwrap();
    let handler = async |req: HttpRequest, name: web::Path<String>| {
        admit(&req, [Check::new(&LIMIT, &name.as_str().into_caller())]).await.map(|_| "ok")
    };
    let app = App::new().app_data(limiter).route("/{name}", web::get().to(handler));
    let app = init_service(app).await;
    assert_eq!(statuses(&app, "/bob", 4).await, [200, 200, 200, 429]);
    assert_eq!(statuses(&app, "/alice", 2).await, [200, 429]);
    assert_eq!(statuses(&app, "/off", 9).await, [200; 9]);
}

#[actix_web::test]
async fn the_nearest_limiter_counts() {
    let [outer, inner] = [fresh(), fresh()];
    let taken = async |req: HttpRequest| {
        admit(&req, [Check::new(&LIMIT, "account")]).await?;
        let left = nearest_limiter(&req).peek(&LIMIT, "account").await.map(|left| left.remaining());
        Ok::<_, Error>(left.unwrap().to_string())
    };
    let scope = web::scope("/inner").app_data(inner.clone()).route("", web::get().to(taken));
    let app = App::new().app_data(outer.clone()).service(scope).route("/outer", web::get().to(taken));
    let app = init_service(app).await;
    for path in ["/inner", "/outer"] {
        assert_eq!(send(&app, get(path)).await.body, "1", "{path}");
    }
}

#[rate_limit(policy = LIMIT, by = global)]
#[get("/again")]
async fn again(req: HttpRequest, quotas: Quotas) -> Result<String> {
    admit(&req, [Check::new(&LIMIT, &caller::global(&req))]).await?;
    Ok(left(&quotas))
}

/// Such as the rest of a cost that the handler learns from the body.
#[test]
fn a_handler_that_charges_a_count_again_is_not_warned_about() {
    in_own_process(|| {
        let log = Log::of_process();
        actix_web::rt::System::new().block_on(async {
            let app = service!(fresh(), again);
            assert_eq!(send(&app, get("/again")).await.body, "minute 1, minute 0");
        });
        assert_eq!(log.at(tracing::Level::WARN), Vec::<String>::new());
    });
}

#[test]
fn too_many_checks_are_rejected_and_logged() {
    in_own_process(|| {
        let log = Log::of_process();
        actix_web::rt::System::new().block_on(async {
            let limiter = fresh();
            let req = TestRequest::default().app_data(limiter.clone()).to_http_request();
            let checks = [Check::new(&HUNDRED, "account"); MAX_GROUP + 1];
            assert_eq!(admit(&req, checks).await.unwrap_err().status_code(), 503);
            assert_eq!(limiter.peek(&HUNDRED, "account").await.unwrap().remaining(), 100);
        });
        let errors = log.at(tracing::Level::ERROR);
        assert!(errors.len() == 1 && errors[0].contains("at most 64 limits, not 65"), "{errors:?}");
    });
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
