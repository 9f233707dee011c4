//! The operator's scope: who may see it, what it shows, and what it changes.

mod overrides;
mod slots;

use std::net::IpAddr;
use std::time::Duration;

use ::redis::AsyncCommands;
use actix_http::Request;
use actix_web::dev::{Service, ServiceResponse};
use actix_web::http::Method;
use actix_web::http::header::{ACCEPT, CONTENT_TYPE};
use actix_web::test::TestRequest;
use actix_web::{App, Error, HttpRequest, get, web};
use ratelimit_actix::ratelimit_core::Mode;
use ratelimit_actix::ratelimit_core::overrides::Field;
use ratelimit_actix::{
    Algorithm, MemoryStore, OnError, Policy, RateLimitConfig, RateLimitMiddleware, RateLimiter, admin,
    rate_limit,
};
use serde_json::Value;
use tests::answer::{self, Answer, statuses};
use tests::log::Log;
use tests::store::watched;
use tests::{clock_at_start, redis, send};
use tracing::Level;

#[rate_limit(max = 2, window = "1m", key = "!admin-orders", on_error = "deny")]
#[get("/orders")]
async fn orders() -> &'static str {
    "orders"
}

/// Counts by a tuple.
#[rate_limit(max = 1, window = "1m", key = "!admin-parts", by = (ip, path("id")))]
#[get("/parts/{id}")]
async fn parts() -> &'static str {
    "parts"
}

const PATHS: [&str; 13] = [
    "/_limits",
    "/_limits/",
    "/_limits/style.css",
    "/_limits/page.js",
    "/_limits/limits.js",
    "/_limits/limits.json",
    "/_limits/overrides.json",
    "/_limits/store.json",
    "/_limits/callers.json",
    "/_limits/token",
    "/_limits/look.json",
    "/_limits/reset.json",
    "/_limits/unknown",
];

fn is_operator(req: &HttpRequest) -> bool {
    req.headers().get("x-role").is_some_and(|role| role == "operator")
}

fn limiter() -> RateLimiter {
    RateLimiter::new(MemoryStore::new().with_clock(clock_at_start()))
}

/// A service with the handlers of this file and the scope.
macro_rules! app {
    ($limiter:expr) => {
        app!($limiter, false)
    };
    ($limiter:expr, $show_callers:expr) => {{
        let services = admin($limiter.clone(), is_operator).show_callers($show_callers);
        actix_web::test::init_service(
            App::new()
                .app_data(web::Data::new($limiter.clone()))
                .service((orders, parts))
                .service(web::scope("/_limits").service(services)),
        )
        .await
    }};
}

fn operator(path: &str) -> TestRequest {
    answer::get(path).insert_header(("x-role", "operator"))
}

async fn get_json<S, B>(app: &S, path: &str) -> Value
where
    S: Service<Request, Response = ServiceResponse<B>, Error = Error>,
    B: actix_web::body::MessageBody,
{
    let answer = send(app, operator(path)).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")), "{path}");
    serde_json::from_str(&answer.body).unwrap()
}

/// Posts a form as an operator, with the token of the page.
async fn post<S, B>(app: &S, path: &str, fields: &[(&str, &str)]) -> Answer
where
    S: Service<Request, Response = ServiceResponse<B>, Error = Error>,
    B: actix_web::body::MessageBody,
{
    let token = send(app, operator("/_limits/token")).await.body;
    let fields: Vec<_> = fields.iter().copied().chain([("token", &*token)]).collect();
    send(app, operator(path).method(Method::POST).set_form(fields)).await
}

/// A field that the page forgot would be in force unseen.
#[actix_web::test]
async fn every_field_that_overrides_may_set_is_shown() {
    let limiter = limiter();
    let app = app!(limiter);
    let limits = get_json(&app, "/_limits/limits.json").await;
    let script = [
        send(&app, operator("/_limits/page.js")).await.body,
        send(&app, operator("/_limits/limits.js")).await.body,
    ]
    .concat();
    let words = |of: &str| {
        let body = script.split(&format!("\nfunction {of}(")).nth(1).unwrap().split("\n}").next().unwrap();
        body.split(|c: char| c != '_' && !c.is_alphanumeric()).map(str::to_owned).collect::<Vec<_>>()
    };
    let shown = [words("numbersText"), words("numbersInForce")].concat();
    for field in Field::ALL.iter().filter(|field| field.is_overridable()) {
        let names = [field.as_str().to_owned(), format!("{}_us", field.as_str())];
        let [in_json, in_script] = [
            names.iter().any(|name| limits[0]["numbers"][0].get(name).is_some()),
            names.iter().any(|name| shown.contains(name)),
        ];
        assert!(in_json && in_script, "{}: {in_json}, {in_script}", field.as_str());
    }
}

fn of<'a>(limits: &'a Value, name: &str) -> &'a Value {
    limits.as_array().unwrap().iter().find(|limit| limit["name"] == name).unwrap()
}

#[actix_web::test]
async fn a_request_that_fails_the_check_finds_nothing() {
    let app = app!(limiter());
    for path in PATHS {
        for method in [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::OPTIONS] {
            let found = send(&app, answer::request(method.clone(), path)).await;
            let nowhere = send(&app, answer::request(method, "/nowhere")).await;
            assert_eq!((found.status, found.text()), (404, nowhere.text()), "{path}");
        }
    }
}

#[actix_web::test]
async fn every_answer_forbids_inline_scripts_and_storing() {
    let app = app!(limiter());
    for path in &PATHS[..PATHS.len() - 1] {
        for method in [Method::GET, Method::POST, Method::DELETE] {
            let answer = send(&app, operator(path).method(method)).await;
            let policy = answer.header("content-security-policy").expect(path);
            assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
            assert!(
                policy.contains("script-src 'self';") && policy.contains("form-action 'none';"),
                "{policy}"
            );
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
            assert_eq!(answer.header("cache-control"), Some("no-store"));
        }
    }
    let put = send(&app, operator("/_limits/reset.json").method(Method::PUT)).await;
    assert_eq!((put.status, put.header("allow")), (405, Some("POST")));
    let scope = send(&app, operator("/_limits")).await;
    assert_eq!((scope.status, scope.header("location")), (308, Some("./_limits/")));
}

#[actix_web::test]
async fn the_page_is_four_small_files_without_anything_inline_or_from_elsewhere() {
    let app = app!(limiter());
    let mut size = 0;
    for (path, content_type) in [
        ("/_limits/", "text/html; charset=utf-8"),
        ("/_limits/style.css", "text/css; charset=utf-8"),
        ("/_limits/page.js", "text/javascript; charset=utf-8"),
        ("/_limits/limits.js", "text/javascript; charset=utf-8"),
    ] {
        let file = send(&app, operator(path).insert_header((ACCEPT, "*/*"))).await;
        assert_eq!((file.status, file.header("content-type")), (200, Some(content_type)), "{path}");
        // The names of the two kinds of elements are no addresses.
        let text = file.body.replace("http://www.w3.org/", "");
        let inline = [" style=", " onclick=", "<style", "<script>", "javascript:", "://", "url(", "@import"];
        // Each makes markup or code of a text.
        let markup = ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "parseFrom", "eval("];
        for forbidden in inline.into_iter().chain(markup) {
            assert!(!text.contains(forbidden), "{path}: {forbidden}");
        }
        size += text.len();
    }
    assert!(size < 32 * 1024, "{size} bytes");
    let page = send(&app, operator("/_limits/")).await.body;
    assert_eq!(page.matches("<script").count(), 2);
    let without_scripts = page.split("<noscript>").nth(1).unwrap().split("</noscript>").next().unwrap();
    for json in ["limits.json", "overrides.json", "store.json", "callers.json"] {
        assert!(without_scripts.contains(json), "{without_scripts}");
    }
}

#[actix_web::test]
async fn a_limit_has_its_place_its_numbers_and_its_counts() {
    let limiter = limiter();
    let app = app!(limiter);
    let before = get_json(&app, "/_limits/limits.json").await;
    assert_eq!(of(&before, "!admin-orders")["admitted"], 0);
    assert_eq!(statuses(&app, "/orders", 5).await, [200, 200, 429, 429, 429]);
    let limits = get_json(&app, "/_limits/limits.json").await;
    let limit = of(&limits, "!admin-orders");
    for counts in [limit, &limit["last_minute"]] {
        assert_eq!(FIGURES.map(|name| counts[name].as_u64()), [2, 3, 0, 0, 1, 0, 0].map(Some), "{limit}");
    }
    let numbers = &limit["numbers"][0];
    assert_eq!((&numbers["max"], &numbers["window_us"]), (&Value::from(2), &Value::from(60_000_000)));
    assert_eq!((&numbers["source"], &numbers["mode"]), (&Value::from("attribute"), &Value::from("enforce")));
    assert_eq!(
        (&numbers["algorithm"], &numbers["on_error"]),
        (&"sliding_window_counter".into(), &"deny".into())
    );
    let place = &numbers["place"];
    assert_eq!((&place["handler"], &place["by"]), (&Value::from("orders"), &Value::from("ip")));
    assert!(place["file"].as_str().unwrap().ends_with("admin.rs") && place["line"].as_u64() > Some(1));
    let bars = limit["recent"].as_array().unwrap();
    let recent = |name: &str| bars.iter().map(|bar| bar[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!((recent("admitted"), recent("denied")), (2, 3));
}

/// What JSON counts of a limit.
const FIGURES: [&str; 7] =
    ["admitted", "denied", "passed", "would_deny", "near_limit", "degraded", "unavailable"];

#[rate_limit(max = 1, window = "1m", key = "!admin-guesses")]
#[get("/guesses")]
async fn guesses() -> &'static str {
    "guesses"
}

#[actix_web::test]
async fn requests_without_the_store_are_unavailable_or_degraded_in_counts_and_bars() {
    let (limiter, watch) = watched();
    let app = actix_web::test::init_service(
        App::new()
            .app_data(limiter.clone())
            .service((orders, guesses))
            .service(web::scope("/_limits").service(admin(limiter, is_operator))),
    )
    .await;
    watch.fail(true);
    assert_eq!(statuses(&app, "/orders", 3).await, [503; 3]);
    assert_eq!(statuses(&app, "/guesses", 3).await, [200, 429, 429]);
    let limits = get_json(&app, "/_limits/limits.json").await;
    for (name, expected) in
        [("!admin-orders", [0, 0, 0, 0, 0, 0, 3]), ("!admin-guesses", [1, 2, 0, 0, 0, 3, 0])]
    {
        let limit = of(&limits, name);
        for counts in [limit, &limit["last_minute"]] {
            assert_eq!(FIGURES.map(|figure| counts[figure].as_u64()), expected.map(Some), "{limit}");
        }
        let bars = limit["recent"].as_array().unwrap();
        for figure in ["admitted", "denied", "unavailable"] {
            let sum: u64 = bars.iter().map(|bar| bar[figure].as_u64().unwrap()).sum();
            assert_eq!(Some(sum), limit[figure].as_u64(), "{figure}: {limit}");
        }
    }
    let store = get_json(&app, "/_limits/store.json").await;
    assert_eq!((&store["is_out"], &store["fallback_callers"]), (&true.into(), &1.into()));
}

#[actix_web::test]
async fn a_limit_of_middleware_is_listed_with_its_policy() {
    let policy = Policy::builder("!admin-shadow").max(1).mode(Mode::Shadow).build();
    let limiter = limiter();
    let app = actix_web::test::init_service(
        App::new()
            .app_data(limiter.clone())
            .service(web::scope("/_limits").service(admin(limiter, is_operator)))
            .service(web::resource("/").wrap(RateLimitMiddleware::new(policy)).to(async || "home")),
    )
    .await;
    assert_eq!(statuses(&app, "/", 3).await, [200; 3]);
    let limits = get_json(&app, "/_limits/limits.json").await;
    let limit = of(&limits, "!admin-shadow");
    assert_eq!((&limit["admitted"], &limit["would_deny"]), (&Value::from(1), &Value::from(2)));
    let numbers = &limit["numbers"][0];
    assert_eq!((&numbers["source"], &numbers["mode"]), (&Value::from("policy"), &Value::from("shadow")));
    assert_eq!(numbers["place"], Value::Null);
}

#[actix_web::test]
async fn denied_callers_are_digests_unless_the_application_shows_them() {
    for show_callers in [false, true] {
        let limiter = limiter();
        let app = app!(limiter, show_callers);
        statuses(&app, "/orders", 4).await;
        let callers = get_json(&app, "/_limits/callers.json").await;
        let caller = &callers["callers"][0];
        assert_eq!((&caller["limit"], &caller["denied"]), (&Value::from("!admin-orders"), &Value::from(2)));
        assert_eq!(caller["digest"].as_str().unwrap().len(), 16);
        let name = if show_callers { "address 192.0.2.1".into() } else { Value::Null };
        assert_eq!(caller["caller"], name, "{callers}");
        assert_eq!(callers.to_string().contains("192.0.2.1"), show_callers);
    }
}

#[actix_web::test]
async fn looking_at_a_caller_charges_nothing_and_a_reset_forgets_its_counts() {
    let limiter = limiter();
    let app = app!(limiter);
    statuses(&app, "/orders", 3).await;
    let fields = [("limit", "!admin-orders"), ("caller", "192.0.2.1")];
    for _ in 0..3 {
        let look: Value =
            serde_json::from_str(&post(&app, "/_limits/look.json", &fields).await.body).unwrap();
        let (count, counted) = (&look["counts"][0], &look["counts"][0]["counted"]);
        assert_eq!(
            (&counted["units"], &counted["limit"], &counted["passes"]),
            (&2.into(), &2.into(), &false.into())
        );
        assert!(counted["retry_after_us"].as_u64() > Some(0), "{look}");
        assert_eq!((&count["origin"], &count["max"]), (&Value::from("program"), &Value::from(2)));
        assert_eq!((&look["is_reset"], &look["caller"]), (&Value::from(false), &Value::Null));
    }
    let free: Value = serde_json::from_str(
        &post(&app, "/_limits/look.json", &[("limit", "!admin-orders"), ("caller", "192.0.2.2")]).await.body,
    )
    .unwrap();
    assert_eq!(free["counts"][0]["counted"]["remaining"], 2);
    let (log, _guard) = Log::of_thread();
    let reset: Value = serde_json::from_str(&post(&app, "/_limits/reset.json", &fields).await.body).unwrap();
    assert_eq!(
        (&reset["is_reset"], &reset["counts"][0]["counted"]["units"]),
        (&Value::from(true), &Value::from(0))
    );
    let lines = log.at(Level::WARN);
    assert!(lines.len() == 1 && lines[0].contains("an operator reset a caller"), "{lines:?}");
    assert!(lines[0].contains("!admin-orders") && lines[0].contains(reset["digest"].as_str().unwrap()));
    assert!(!lines[0].contains("192.0.2.1"), "{lines:?}");
    assert_eq!(statuses(&app, "/orders", 3).await, [200, 200, 429]);
}

#[actix_web::test]
async fn a_look_shows_the_wait_of_a_denial_in_memory_and_in_redis() {
    let clock = clock_at_start();
    let memory = RateLimiter::new(MemoryStore::new().with_clock(clock.clone()));
    let server = redis::server();
    for limiter in
        [Some(memory), server.as_ref().map(|server| server.limiter_at(&clock))].into_iter().flatten()
    {
        let app = app!(limiter);
        let minute = Duration::from_secs(60);
        for policy in Algorithm::ALL.iter().flat_map(|algorithm| {
            let policy =
                Policy::builder("k").max(3).window(minute).algorithm(*algorithm).on_error(OnError::Deny);
            [(policy, "plain"), (policy.block(10 * minute), "block"), (policy.mode(Mode::Shadow), "shadow")]
                .map(|(policy, kind)| policy.build().with_key(format!("!wait-{algorithm}-{kind}")).unwrap())
        }) {
            let mut denied = limiter.check(&policy, "a").await.unwrap();
            while denied.is_allowed() && !denied.would_deny() {
                denied = limiter.check(&policy, "a").await.unwrap();
            }
            let fields = [("limit", policy.key()), ("caller", "partition a")];
            let look: Value =
                serde_json::from_str(&post(&app, "/_limits/look.json", &fields).await.body).unwrap();
            let counted = &look["counts"][0]["counted"];
            let micros = |wait: Duration| Value::from(u64::try_from(wait.as_micros()).unwrap());
            assert_eq!(counted["retry_after_us"], micros(denied.available_after()), "{look}");
            assert_eq!(counted["reset_after_us"], micros(denied.reset_after()), "{look}");
            assert_eq!((&counted["passes"], &counted["units"]), (&false.into(), &3.into()), "{look}");
        }
    }
}

/// Counts at an address of a scope with another prefix than that of the page.
#[rate_limit(max = 2, window = "1m", key = "!admin-networks")]
#[get("/networks")]
async fn networks() -> &'static str {
    "networks"
}

#[actix_web::test]
async fn an_ipv6_client_is_looked_at_and_reset_by_the_prefix_of_its_scope() {
    const CLIENT: &str = "2001:db8:7:1234::1";
    let prefix = |bits| RateLimitConfig::builder().ipv6_prefix(bits).build().unwrap();
    for (page, scope, shown) in [(64, 48, 48), (48, 64, 64), (128, 56, 56), (48, 48, 48)] {
        let limiter = limiter();
        let app = actix_web::test::init_service(
            App::new()
                .app_data(web::Data::new(limiter.clone()))
                .service(web::scope("/api").app_data(prefix(scope)).service(networks))
                .service(web::scope("/_limits").app_data(prefix(page)).service(admin(limiter, is_operator))),
        )
        .await;
        let from_client = || {
            TestRequest::with_uri("/api/networks").peer_addr((CLIENT.parse::<IpAddr>().unwrap(), 1).into())
        };
        for status in [200, 200, 429] {
            assert_eq!(send(&app, from_client()).await.status, status);
        }
        let fields = [("limit", "!admin-networks"), ("caller", CLIENT)];
        let look: Value =
            serde_json::from_str(&post(&app, "/_limits/look.json", &fields).await.body).unwrap();
        let count = &look["counts"][0];
        assert_eq!((&count["counted"]["units"], &count["ipv6_prefix"]), (&2.into(), &shown.into()), "{look}");
        assert_eq!(look["counts"].as_array().unwrap().len(), 1, "{look}");
        let reset: Value =
            serde_json::from_str(&post(&app, "/_limits/reset.json", &fields).await.body).unwrap();
        assert_eq!((&reset["is_reset"], &reset["was_counted"]), (&true.into(), &true.into()), "{reset}");
        assert_eq!(reset["digest"], look["digest"], "of the same network");
        for status in [200, 200, 429] {
            assert_eq!(send(&app, from_client()).await.status, status, "{page} {scope}");
        }
    }
}

#[actix_web::test]
async fn a_reset_forgets_a_value_that_cannot_be_read() {
    #[rate_limit(max = 2, window = "1h", key = "!admin-closed", on_error = "deny")]
    #[get("/closed")]
    async fn closed() -> &'static str {
        "closed"
    }
    #[rate_limit(max = 2, window = "1h", key = "!admin-local")]
    #[get("/local")]
    async fn local() -> &'static str {
        "local"
    }
    let Some(server) = redis::server() else { return };
    let limiter = server.limiter();
    let app = actix_web::test::init_service(
        App::new()
            .app_data(web::Data::new(limiter.clone()))
            .service((closed, local))
            .service(web::scope("/_limits").service(admin(limiter, is_operator))),
    )
    .await;
    let mut raw = server.raw().await;
    for (path, name, status) in [("/closed", "!admin-closed", 503), ("/local", "!admin-local", 200)] {
        assert_eq!(statuses(&app, path, 1).await, [200]);
        let keys: Vec<String> = raw.keys("*").await.unwrap();
        assert_eq!(keys.len(), 1, "{keys:?}");
        let _: () = raw.set(&keys[0], "not ours").await.unwrap();
        assert_eq!(statuses(&app, path, 1).await, [status]);
        let fields = [("limit", name), ("caller", "192.0.2.1")];
        let answer = post(&app, "/_limits/reset.json", &fields).await;
        let reset: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(
            (answer.status, &reset["is_reset"], &reset["was_counted"]),
            (200, &true.into(), &true.into()),
            "{reset}"
        );
        assert_eq!(reset["counts"][0]["counted"]["is_degraded"], false, "{reset}");
        assert_eq!(statuses(&app, path, 3).await, [200, 200, 429]);
        let _: () = raw.del(&keys[0]).await.unwrap();
    }
}

#[actix_web::test]
async fn a_reset_is_sent_although_the_look_before_it_fails() {
    let (limiter, watch) = watched();
    let app = app!(limiter);
    watch.fail(true);
    let fields = [("limit", "!admin-orders"), ("caller", "192.0.2.1")];
    let answer = post(&app, "/_limits/reset.json", &fields).await;
    assert_eq!((answer.status, watch.resets()), (503, 1), "{}", answer.body);
    assert!(answer.body.contains("some may be forgotten already"), "{}", answer.body);
}

#[actix_web::test]
async fn a_look_and_a_reset_say_whether_anything_was_counted() {
    let limiter = limiter();
    let app = app!(limiter);
    for algorithm in Algorithm::ALL {
        let name = format!("!admin-{algorithm}");
        let policy =
            Policy::builder("k").max(5).algorithm(*algorithm).build().with_key(name.clone()).unwrap();
        assert!(limiter.check(&policy, "a").await.unwrap().is_allowed());
        let fields = |caller| [("limit", name.as_str()), ("caller", caller)];
        for (caller, was_counted) in [("partition b", false), ("partition a", true), ("partition a", false)] {
            for path in ["/_limits/look.json", "/_limits/reset.json"] {
                let answer = post(&app, path, &fields(caller)).await;
                let view: Value = serde_json::from_str(&answer.body).unwrap();
                assert_eq!(view["was_counted"], was_counted, "{algorithm} {path}: {view}");
            }
        }
    }
}

#[actix_web::test]
async fn a_listed_caller_is_reset_by_its_digest_and_a_tuple_by_its_lines() {
    let limiter = limiter();
    let app = app!(limiter);
    assert_eq!(statuses(&app, "/parts/7", 2).await, [200, 429]);
    let callers = get_json(&app, "/_limits/callers.json").await;
    let (digest, limit) = (&callers["callers"][0]["digest"], "!admin-parts");
    let fields = [("digest", digest.as_str().unwrap()), ("limit", limit)];
    for path in ["/_limits/look.json", "/_limits/reset.json"] {
        let view: Value = serde_json::from_str(&post(&app, path, &fields).await.body).unwrap();
        assert_eq!((&view["digest"], &view["limit"]), (digest, &Value::from(limit)), "{view}");
        assert_eq!(view["was_counted"], true, "{view}");
    }
    assert_eq!(statuses(&app, "/parts/7", 2).await, [200, 429]);
    let caller = [("limit", "!admin-parts"), ("caller", "192.0.2.1\r\ntext 7")];
    assert_eq!(post(&app, "/_limits/reset.json", &caller).await.status, 200);
    assert_eq!(statuses(&app, "/parts/7", 2).await, [200, 429]);
}

#[actix_web::test]
async fn requests_that_another_site_makes_change_nothing() {
    let limiter = limiter();
    let app = app!(limiter);
    statuses(&app, "/orders", 2).await;
    let fields = [("limit", "!admin-orders"), ("caller", "192.0.2.1")];
    let token = send(&app, operator("/_limits/token")).await.body;
    for path in ["/_limits/reset.json", "/_limits/look.json"] {
        let without = operator(path).method(Method::POST).set_form(fields);
        assert_eq!(send(&app, without).await.status, 403, "{path}");
        let with = fields.iter().copied().chain([("token", &*token)]).collect::<Vec<_>>();
        let cross = operator(path)
            .method(Method::POST)
            .set_form(with)
            .insert_header(("sec-fetch-site", "cross-site"));
        assert_eq!(send(&app, cross).await.status, 403, "{path}");
    }
    assert_eq!(statuses(&app, "/orders", 1).await, [429], "not reset");
    let field = operator("/_limits/reset.json").method(Method::POST).insert_header(("x-csrf-token", token));
    assert_eq!(send(&app, field.set_form(fields)).await.status, 200);
    assert_eq!(statuses(&app, "/orders", 1).await, [200]);
}

#[actix_web::test]
async fn fields_that_name_nothing_are_errors_in_words() {
    let app = app!(limiter());
    let long = "x".repeat(5_000);
    let cases = [
        (&[("limit", "unknown"), ("caller", "a")][..], 404, "no limit with this name"),
        (&[], 404, "no limit with this name"),
        (&[("limit", "!admin-orders")], 400, "expected a caller"),
        (&[("limit", "!admin-orders"), ("caller", "number x")], 400, "expected a whole number"),
        (&[("limit", "!admin-orders"), ("caller", &long)], 400, "more than 4096 bytes"),
        (&[("limit", "!admin-orders"), ("digest", "0123456789abcdef")], 404, "no longer among those"),
        (&[("limit", "!admin-orders"), ("digest", "<b>")], 404, "no longer among those"),
    ];
    for (fields, status, text) in cases {
        for path in ["/_limits/look.json", "/_limits/reset.json"] {
            let answer = post(&app, path, fields).await;
            assert_eq!(answer.status, status, "{path}: {fields:?}");
            assert!(answer.body.contains(text), "{path}: {fields:?}: {}", answer.body);
            assert!(!answer.body.contains("<b>"), "{}", answer.body);
        }
    }
    let no_form =
        operator("/_limits/reset.json").method(Method::POST).insert_header((CONTENT_TYPE, "text/plain"));
    let answer = send(&app, no_form.set_payload("limit=a")).await;
    assert_eq!((answer.status, answer.body.contains("expected the fields of a form")), (400, true));
}

#[actix_web::test]
async fn callers_in_json_are_at_most_100() {
    let limiter = limiter();
    let app = app!(limiter);
    let policy = Policy::new("k", 1, Duration::from_secs(60));
    for caller in 0..400 {
        for _ in 0..2 {
            let _ = limiter.check(&policy, format!("caller-{caller}")).await.unwrap();
        }
    }
    let callers = get_json(&app, "/_limits/callers.json").await;
    assert_eq!(callers["callers"].as_array().unwrap().len(), 100);
}

#[actix_web::test]
async fn the_store_in_memory_has_callers_and_no_connection() {
    let limiter = limiter();
    let app = app!(limiter);
    statuses(&app, "/orders", 1).await;
    let store = get_json(&app, "/_limits/store.json").await;
    assert_eq!((&store["kind"], &store["is_ready"]), (&Value::from("memory"), &Value::from(true)));
    assert_eq!((&store["callers"], &store["connection"]), (&Value::from(1), &Value::Null));
    assert_eq!((&store["is_out"], &store["fallback_callers"]), (&Value::from(false), &Value::from(0)));
    let head = send(&app, operator("/_limits/store.json").method(Method::HEAD)).await;
    assert_eq!(head.status, 200);
}

#[actix_web::test]
async fn the_connection_of_a_store_has_its_figures_and_their_units() {
    let Some(server) = redis::server() else { return };
    let limiter = server.limiter();
    let app = app!(limiter);
    assert_eq!(statuses(&app, "/orders", 1).await, [200]);
    let store = get_json(&app, "/_limits/store.json").await;
    assert_eq!((&store["kind"], &store["callers"]), (&Value::from("redis"), &Value::Null));
    let connection = &store["connection"];
    let is_one = |value: &Value| value.as_u64() == Some(1);
    assert!(is_one(&connection["connections"]) && is_one(&connection["slot_ranges"]), "{store}");
    assert_eq!(connection["open_slot_ranges"], serde_json::json!([]));
    assert!(connection["deadline_us"].as_u64() > Some(0), "{store}");
    for name in ["count", "sum", "p50", "p99", "max"] {
        assert!(connection["round_trip_us"][name].as_u64() > Some(0), "{name}: {store}");
        assert!(is_one(&connection["batch"][name]), "{name}: {store}");
    }
    for name in ["callers", "held", "leased", "used", "returned", "expired"] {
        assert_eq!(connection["leases"][name], 0, "{name}: {store}");
    }
    assert_eq!((&connection["cached_denials"], &connection["denial_cache_hits"]), (&0.into(), &0.into()));
}
