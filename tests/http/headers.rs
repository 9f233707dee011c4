//! Header fields and bodies over real connections: every style, for every way in which a request can end.

mod waiting;

use std::net::SocketAddr;
use std::time::Duration;

use actix_web::error::{ErrorImATeapot, InternalError};
use actix_web::http::StatusCode;
use actix_web::http::header::RETRY_AFTER;
use actix_web::test::init_service;
use actix_web::web::{self, Data, Path, ServiceConfig};
use actix_web::{App, HttpRequest, HttpResponse, Result};
use ratelimit_actix::{
    BodyStyle, HeaderStyle, Policy, PolicyBuilder, Quotas, RateLimitConfig, RateLimitConfigBuilder,
    RateLimitMiddleware, RateLimiter, Rejection, rate_limit,
};
use tests::answer::{get, send};
use tests::client::{self, Reply};
use tests::demo::{Demo, within_one_minute};
use tests::service::Service;
use tests::store::{START, clocked, fresh, watched};

const DEMO: &str = env!("CARGO_BIN_EXE_demo-headers");

/// 3 requests: one that passes, one that the handler refuses, one whose argument is wrong; then none.
#[rate_limit(max = 3, window = "1m", key = "minute", algorithm = "fixed_window", on_error = "deny")]
#[rate_limit(max = 500, window = "500ms", key = "burst", algorithm = "fixed_window")]
#[rate_limit(max = 1000, window = "1d", key = "daily", algorithm = "fixed_window")]
async fn three(argument: Path<u8>) -> Result<&'static str> {
    if *argument == 0 { Err(ErrorImATeapot("no")) } else { Ok("yes") }
}

fn service(config: RateLimitConfigBuilder, limiter: RateLimiter) -> Service {
    let config = config.build().unwrap();
    Service::start(move |app: &mut ServiceConfig| {
        app.app_data(config.clone())
            .app_data(Data::new(limiter.clone()))
            .route("/{argument}", web::get().to(three));
    })
}

/// A pass, a handler's error, an extractor's error and a denial.
fn four(server: SocketAddr, headers: &[&str]) -> [Reply; 4] {
    let replies = ["/1", "/0", "/x", "/1"].map(|path| client::get(server, path, headers));
    assert_eq!(replies.each_ref().map(|reply| reply.status), [200, 418, 404, 429]);
    replies
}

/// The fields of the quota, sorted by name.
fn limit_fields(reply: &Reply) -> Vec<String> {
    let quota = reply.headers.iter().filter(|(name, _)| name.contains("ratelimit") || name == "retry-after");
    let mut lines: Vec<_> = quota.map(|(name, value)| format!("{name}: {value}")).collect();
    lines.sort();
    lines
}

#[test]
fn draft_11_headers_show_all_three_limits() {
    let service = service(RateLimitConfig::builder().headers([HeaderStyle::Draft11]), fresh());
    let policy = r#"ratelimit-policy: "minute";q=3;w=60, "burst";q=500, "daily";q=1000;w=86400"#;
    // The fake clock stands at the first instant of a minute that is 80 000 and some seconds before a day's
    // end.
    let day = 86_400 - START % 86_400;
    for (reply, taken) in four(service.address, &[]).iter().zip([1, 2, 3, 3]) {
        let (minute, burst, daily) = (3 - taken, 500 - taken, 1000 - taken);
        let denied = reply.status == 429;
        let late = if denied { String::new() } else { format!(";t={day}") };
        let limit =
            format!(r#"ratelimit: "minute";r={minute};t=60, "burst";r={burst};t=1, "daily";r={daily}{late}"#);
        let mut expected = vec![limit, policy.to_owned()];
        expected.extend(denied.then(|| "retry-after: 60".to_owned()));
        expected.sort();
        assert_eq!(limit_fields(reply), expected);
    }
}

#[test]
fn response_bodies_follow_the_configuration() {
    let text = "Rate limit exceeded. Try again in 60 seconds.";
    let json = format!(r#"{{"error":"Too Many Requests","message":"{text}","retryAfter":60}}"#);
    let problem = format!(
        r#"{{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"detail":"{text}","violated-policies":["minute"]}}"#
    );
    let builder = RateLimitConfig::builder;
    let own = builder().body_with("application/vnd.own+json", |refusal| {
        let names = refusal.violated_policies().join(",");
        format!("{} {:?} {names}", refusal.status(), refusal.retry_after())
    });
    let cases = [
        (builder(), "application/json", json.clone()),
        (builder().body(BodyStyle::Problem), "application/problem+json", problem.clone()),
        (builder().body(BodyStyle::Text), "text/plain; charset=utf-8", format!("{text}\n")),
        (own, "application/vnd.own+json", "429 Too Many Requests Some(60s) minute".to_owned()),
    ];
    for (config, content_type, body) in cases {
        let service = service(config, fresh());
        // Only a configuration for it reads Accept.
        let [.., denied] = four(service.address, &["Accept: text/plain"]);
        assert_eq!(denied.header("content-type"), Some(content_type));
        assert_eq!(denied.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(denied.body, body);
    }
    let service = service(builder().body_by_accept(true), fresh());
    four(service.address, &[]);
    for (accept, body) in [("Accept: application/problem+json", &problem), ("Accept: text/html", &json)] {
        let denied = client::get(service.address, "/1", &[accept]);
        assert_eq!(&denied.body, body);
        let vary = denied.headers.iter().filter(|(name, _)| name == "vary");
        let mut fields = vary.flat_map(|(_, value)| value.split(", "));
        assert!(fields.any(|field| field.eq_ignore_ascii_case("accept")), "{:?}", denied.headers);
    }
}

#[test]
fn rejections_of_every_kind_have_bodies_of_one_style() {
    #[rate_limit(by = no_caller)]
    async fn missing() -> &'static str {
        ""
    }
    fn no_caller(_: &HttpRequest) -> Option<u8> {
        None
    }
    #[rate_limit(on_error = "deny")]
    async fn strict() -> &'static str {
        ""
    }

    let (limiter, watch) = watched();
    watch.fail(true);
    let config = RateLimitConfig::builder().body(BodyStyle::Problem).build().unwrap();
    let service = Service::start(move |app: &mut ServiceConfig| {
        app.app_data(config.clone())
            .app_data(Data::new(limiter.clone()))
            .route("/missing", web::get().to(missing))
            .route("/strict", web::get().to(strict));
    });
    let unavailable = client::get(service.address, "/strict", &[]);
    assert_eq!((unavailable.status, unavailable.header("retry-after")), (503, Some("1")));
    assert_eq!(unavailable.header("content-type"), Some("application/problem+json"));
    assert!(unavailable.body.contains("#temporary-reduced-capacity"), "{}", unavailable.body);
    let missing = client::get(service.address, "/missing", &[]);
    assert_eq!((missing.status, missing.header("retry-after")), (400, None));
    assert!(missing.body.contains(r#""type":"about:blank","title":"Bad Request""#), "{}", missing.body);
}

#[test]
fn an_error_handler_writes_the_response_except_for_the_quota() {
    let config = RateLimitConfig::builder().error_handler(|rejection, req| {
        let status = match rejection {
            Rejection::RateLimited(_) if req.path() == "/1" => StatusCode::PAYMENT_REQUIRED,
            other => return other.into(),
        };
        InternalError::new("pay", status).into()
    });
    let service = service(config, fresh());
    for path in ["/1", "/1", "/1"] {
        client::get(service.address, path, &[]);
    }
    let own = client::get(service.address, "/1", &[]);
    assert_eq!((own.status, own.body.as_str()), (402, "pay"));
    assert_eq!(limit_fields(&own).len(), 4, "{:?}", own.headers);
    let passed_on = client::get(service.address, "/2", &[]);
    assert_eq!((passed_on.status, passed_on.header("content-type")), (429, Some("application/json")));

    let own_wait = RateLimitConfig::builder().error_handler(|_, _| {
        let response = HttpResponse::TooManyRequests().insert_header((RETRY_AFTER, "7")).finish();
        InternalError::from_response("own", response).into()
    });
    let service = self::service(own_wait, fresh());
    let [.., denied] = four(service.address, &[]);
    assert_eq!(denied.header("retry-after"), Some("7"));
}

#[test]
fn handlers_can_read_the_quota_and_charge_more() {
    #[rate_limit(max = 10, window = "1m", algorithm = "fixed_window")]
    #[rate_limit(max = 100, window = "1h", algorithm = "fixed_window", name = "hour")]
    async fn metered(units: Path<u64>, quotas: Quotas) -> String {
        let before = quotas.remaining();
        let taken = quotas.charge_up_to(*units).await.unwrap();
        let all = quotas.to_vec();
        let left = all.iter().map(|quota| quota.outcome().remaining()).collect::<Vec<_>>();
        let tightest = quotas.tightest().unwrap();
        format!("{before:?} {taken} {left:?} {}", tightest.policy().max())
    }

    async fn unlimited(quotas: Quotas) -> String {
        format!("{:?} {}", quotas.remaining(), quotas.charge_up_to(5).await.unwrap())
    }

    let (limiter, _clock) = clocked();
    let service = Service::start(move |app: &mut ServiceConfig| {
        app.app_data(Data::new(limiter.clone()))
            .route("/unlimited", web::get().to(unlimited))
            .route("/{units}", web::get().to(metered));
    });
    let fetch = |path| client::get(service.address, path, &[]);
    let reply = fetch("/4");
    assert_eq!(reply.body, "Some(9) 4 [5, 95] 10");
    assert_eq!(reply.header("x-ratelimit-remaining"), Some("5"));
    assert_eq!(fetch("/0").body, "Some(4) 0 [4, 94] 10");
    // More than is left: takes what is left, and says how much that was.
    let reply = fetch("/50");
    assert_eq!(reply.body, "Some(3) 3 [0, 90] 10");
    assert_eq!((reply.status, reply.header("x-ratelimit-remaining")), (200, Some("0")));
    assert_eq!(fetch("/1").status, 429);
    assert_eq!(fetch("/unlimited").body, "None 5");
}

#[actix_web::test]
async fn charging_makes_few_store_calls_whatever_remains() {
    // In arguments, two limits with one count would be an error of the compiler.
    const SHARED: PolicyBuilder = Policy::builder("shared").window(Duration::from_secs(3600));
    static SMALLER: Policy = SHARED.max(20_001).build();
    static LARGER: Policy = SHARED.max(30_000).build();

    #[rate_limit(policy = SMALLER)]
    #[rate_limit(policy = LARGER)]
    #[rate_limit(max = 50_000, key = "alone", window = "1h")]
    async fn metered(units: Path<u64>, quotas: Quotas) -> String {
        quotas.charge_up_to(*units).await.unwrap().to_string()
    }

    let (limiter, watch) = watched();
    let app = App::new().app_data(Data::new(limiter)).route("/{units}", web::get().to(metered));
    let app = init_service(app).await;
    let fetch = async |path| {
        let before = watch.calls();
        let answer = send(&app, get(path)).await;
        // The first question is that of the handler itself.
        (answer.status, answer.body.clone(), answer.quota().unwrap().1, watch.calls() - before - 1)
    };
    // Each unit takes two of the shared count, of which the request itself has taken two.
    assert_eq!(fetch("/100").await, (200, "100".to_owned(), 19_799, 1));
    assert_eq!(fetch("/20000").await, (200, "9898".to_owned(), 1, 1));
    assert_eq!(fetch("/20000").await.0, 429, "one is left, and the request takes two");
}

#[actix_web::test]
async fn a_charge_without_an_answer_of_the_store_is_a_503() {
    #[rate_limit(max = 9, key = "charged-late", on_error = "deny")]
    async fn charged(quotas: Quotas, watch: Data<tests::store::Watch>) -> Result<String> {
        watch.fail(true);
        Ok(quotas.charge_up_to(1).await?.to_string())
    }
    let (limiter, watch) = watched();
    let app = App::new().app_data(limiter).app_data(Data::from(watch)).route("/", web::get().to(charged));
    let answer = send(&init_service(app).await, get("/")).await;
    assert_eq!((answer.status, answer.body.as_str()), (503, ""));
}

mod places {
    pub(super) mod one {
        use super::super::*;

        #[rate_limit(max = 9)]
        #[rate_limit(max = 8, window = "1h")]
        #[rate_limit(max = 7, name = "daily", window = "1d")]
        pub(in super::super) async fn user(quotas: Quotas) -> String {
            let names = quotas.to_vec();
            let names: Vec<&str> = names.iter().map(|quota| quota.policy().name()).collect();
            names.join(" ")
        }

        pub(in super::super) struct Users;

        #[allow(clippy::unused_async, reason = "a handler is async")]
        #[rate_limit(max = |_: HttpRequest| 5)]
        impl Users {
            pub(in super::super) async fn list(quotas: Quotas) -> String {
                quotas.to_vec()[0].policy().name().to_owned()
            }
        }
    }

    pub(super) mod two {
        #[ratelimit_actix::rate_limit(max = 6, key = "orders")]
        pub(in super::super) async fn user() -> &'static str {
            ""
        }
    }
}

#[actix_web::test]
async fn clients_see_the_function_name_and_metrics_its_path() {
    let config = RateLimitConfig::builder().headers([HeaderStyle::Draft11]).build().unwrap();
    let outer = RateLimitMiddleware::new(Policy::new("user", 10, Duration::from_secs(1)));
    let app = App::new()
        .app_data(config)
        .app_data(fresh())
        .route("/one", web::get().to(places::one::user))
        .route("/two", web::get().to(places::two::user))
        .route("/list", web::get().to(places::one::Users::list))
        .service(web::resource("/both").wrap(outer).to(places::one::user));
    let app = init_service(app).await;
    let policies = async |path| {
        let answer = send(&app, get(path)).await;
        (answer.header("ratelimit-policy").unwrap().to_owned(), answer.body)
    };
    let module = concat!(module_path!(), "::places::one::");
    let (policy_field, names) = policies("/one").await;
    assert_eq!(policy_field, r#""user";q=9;w=60, "user#2";q=8;w=3600, "daily";q=7;w=86400"#);
    assert_eq!(names, format!("{module}user {module}user#2 daily"));
    assert_eq!(policies("/two").await.0, r#""orders";q=6;w=60"#);
    let (policy_field, name) = policies("/list").await;
    assert_eq!((policy_field.as_str(), name), (r#""Users::list";q=5;w=60"#, format!("{module}Users::list")));
    let (policy_field, _) = policies("/both").await;
    assert!(policy_field.starts_with(r#""user";q=10;w=1, "user-2";q=9;w=60, "user#2";"#), "{policy_field}");
}

#[test]
fn the_headers_demo_sends_every_style() {
    let replies = within_one_minute(|| {
        let demo = Demo::start(DEMO, &[("HEADER_STYLE", "draft-11"), ("BODY_STYLE", "problem")]);
        [(); 3].map(|()| client::get(demo.address, "/", &[]))
    });
    assert_eq!(replies.each_ref().map(|reply| reply.status), [200, 200, 429]);
    let policy = Some(r#""burst";q=2;w=60, "hourly";q=100;w=3600"#);
    for reply in &replies {
        assert_eq!(reply.header("ratelimit-policy"), policy);
        assert_eq!(reply.header("x-ratelimit-limit"), None);
    }
    assert!(replies[2].header("ratelimit").unwrap().starts_with(r#""burst";r=0;t="#), "{replies:?}");
    assert!(replies[2].body.contains(r#""violated-policies":["burst"]"#), "{replies:?}");
    for (style, name, absent) in [
        ("legacy", Some("x-ratelimit-reset"), "ratelimit-policy"),
        ("draft-06", Some("ratelimit-reset"), "x-ratelimit-limit"),
        ("none", None, "x-ratelimit-limit"),
    ] {
        let demo = Demo::start(DEMO, &[("HEADER_STYLE", style)]);
        let reply = client::get(demo.address, "/", &[]);
        assert_eq!(reply.status, 200);
        assert!(name.is_none_or(|name| reply.header(name).is_some()), "{style}: {reply:?}");
        assert_eq!(reply.header(absent), None, "{style}");
    }
    for (variable, value) in [("HEADER_STYLE", "draft-12"), ("BODY_STYLE", "xml"), ("PORT", "x")] {
        let said = Demo::refusal(DEMO, &[(variable, value)]);
        assert!(said.starts_with(&format!("error: {variable} must be ")), "{said}");
    }
}
