//! What `#[rate_limit]` does to handlers, seen from a client: in the same process, and over real connections to the
//! demo service.

#![allow(clippy::unwrap_used, reason = "also in functions that several tests call")]
#![allow(clippy::disallowed_methods, reason = "deadlines of waits for real processes")]

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use actix_web::dev::Payload;
use actix_web::http::{Method, StatusCode};
use actix_web::test::init_service;
use actix_web::web::{self, Bytes, Data, Path};
use actix_web::{
    App, FromRequest, HttpMessage, HttpRequest, HttpResponse, Responder, ResponseError, get, post, route,
    routes,
};
use ratelimit_actix::{IntoKey, Key, RateLimited, client_ip, rate_limit};
use tests::answer::{by, get, request, send_raw, statuses};
use tests::demo::{Demo, within_one_minute};
use tests::log::Log;
use tests::own_process::in_own_process;
use tests::payload::with_watched_body;
use tests::store::{SECRET, START, clocked, fresh, watched};
use tests::{client, redis, send, within};
use tracing::Level;

/// A service of these handlers over one limiter.
macro_rules! service {
    ($limiter:expr, $($handler:expr),+ $(,)?) => {
        init_service(App::new().app_data(Data::new($limiter.clone()))$(.service($handler))+).await
    };
}

// ---- Where the attribute may stand ------------------------------------------------------------------------------

mod positions {
    use super::*;

    #[rate_limit(max = 1)]
    #[get("/above")]
    async fn above() -> &'static str {
        "above"
    }

    #[get("/below")]
    #[rate_limit(max = 1)]
    async fn below() -> &'static str {
        "below"
    }

    #[rate_limit(max = 1)]
    #[get("/between")]
    #[rate_limit(max = 5, window = "1h")]
    async fn between() -> &'static str {
        "between"
    }

    #[rate_limit(max = 1)]
    #[routes]
    #[get("/first")]
    #[post("/first")]
    #[get("/second")]
    async fn above_routes() -> &'static str {
        "routes"
    }

    #[routes]
    #[get("/third")]
    #[get("/fourth")]
    #[rate_limit(max = 1)]
    async fn below_routes() -> &'static str {
        "routes"
    }

    #[rate_limit(max = 1)]
    async fn plain() -> &'static str {
        "plain"
    }

    #[rate_limit(max = 1)]
    async fn generic<T: fmt::Display + 'static, const N: usize>(value: Path<T>) -> String
    where
        Path<T>: FromRequest,
    {
        value.to_string().repeat(N)
    }

    async fn assert_limited_to_one<S, B>(app: &S, path: &str)
    where
        S: actix_web::dev::Service<
                actix_http::Request,
                Response = actix_web::dev::ServiceResponse<B>,
                Error = actix_web::Error,
            >,
        B: actix_web::body::MessageBody,
    {
        assert_eq!(statuses(app, path, 3).await, [200, 429, 429], "{path}");
    }

    #[actix_web::test]
    async fn above_below_and_around_the_route_it_limits() {
        let app = service!(fresh(), above, below, between);
        for path in ["/above", "/below", "/between"] {
            assert_limited_to_one(&app, path).await;
        }
    }

    #[actix_web::test]
    async fn a_handler_with_several_routes_has_one_count() {
        let app = service!(fresh(), above_routes, below_routes);
        assert_limited_to_one(&app, "/first").await;
        assert_eq!(statuses(&app, "/second", 1).await, [429]);
        let post = send(&app, request(Method::POST, "/first")).await;
        assert_eq!(post.status, 429);
        assert_limited_to_one(&app, "/third").await;
        assert_eq!(statuses(&app, "/fourth", 1).await, [429]);
    }

    #[actix_web::test]
    async fn a_handler_without_a_route_attribute_is_limited_wherever_it_is_mounted() {
        let app = service!(
            fresh(),
            web::resource("/to").route(web::get().to(plain)),
            web::resource("/again").to(plain),
        );
        assert_limited_to_one(&app, "/to").await;
        assert_eq!(statuses(&app, "/again", 1).await, [429]);
    }

    #[actix_web::test]
    async fn a_generic_handler_has_one_count_for_all_its_types() {
        let app = service!(
            fresh(),
            web::resource("/number/{n}").to(generic::<u8, 2>),
            web::resource("/text/{s}").to(generic::<String, 3>),
        );
        let answer = send(&app, get("/number/7")).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "77"));
        assert_eq!(statuses(&app, "/text/a", 1).await, [429]);
    }
}

// ---- Arguments and return values --------------------------------------------------------------------------------

mod signatures {
    use super::*;

    #[rate_limit]
    #[get("/none")]
    async fn none() -> impl Responder {
        "none"
    }

    #[rate_limit]
    #[post("/sixteen")]
    #[allow(
        clippy::too_many_arguments,
        clippy::many_single_char_names,
        reason = "the most that Actix allows"
    )]
    async fn sixteen(
        a: HttpRequest,
        b: HttpRequest,
        c: HttpRequest,
        d: HttpRequest,
        e: HttpRequest,
        f: HttpRequest,
        g: HttpRequest,
        h: HttpRequest,
        i: HttpRequest,
        j: HttpRequest,
        k: HttpRequest,
        l: HttpRequest,
        m: HttpRequest,
        n: HttpRequest,
        o: HttpRequest,
        body: String,
    ) -> String {
        let requests = [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o];
        format!("{} {body}", requests.len())
    }

    #[rate_limit]
    #[post("/form")]
    async fn form(web::Query(query): web::Query<Vec<(String, u8)>>, body: Bytes) -> HttpResponse {
        HttpResponse::Created().body(format!("{query:?} {}", body.len()))
    }

    /// Actix makes a type of each handler's name; none of them may get in the way of what the attribute writes.
    mod letters {
        use super::*;

        #[rate_limit]
        #[get("/e")]
        pub(super) async fn e(request: HttpRequest) -> String {
            request.path().to_owned()
        }

        #[rate_limit]
        #[get("/r")]
        pub(super) async fn r() -> Result<&'static str, actix_web::Error> {
            Ok("r")
        }
    }

    #[actix_web::test]
    async fn handlers_have_none_to_sixteen_arguments() {
        let app = service!(fresh(), none, sixteen, form, letters::e, letters::r);
        assert_eq!(send(&app, get("/none")).await.body, "none");
        let post = request(Method::POST, "/sixteen").set_payload("body");
        assert_eq!(send(&app, post).await.body, "15 body");
        let post = request(Method::POST, "/form?a=1").set_payload("body");
        let answer = send(&app, post).await;
        assert_eq!((answer.status, answer.body.as_str()), (201, r#"[("a", 1)] 4"#));
        assert_eq!(send(&app, get("/e")).await.body, "/e");
        assert_eq!(send(&app, get("/r")).await.body, "r");
    }
}

// ---- What the client is told ------------------------------------------------------------------------------------

mod answers {
    use super::*;

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
    async fn every_answer_of_a_counted_request_tells_the_quota() {
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
    async fn a_denial_says_exactly_when_to_come_back() {
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
    async fn waits_are_rounded_up_so_that_nobody_comes_back_too_early() {
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
    async fn a_request_that_can_never_pass_is_not_told_to_come_back() {
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
    async fn of_several_limits_the_tightest_is_told_whatever_the_handler_says() {
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

    use actix_web::dev::Service as _;

    fn secret_name(req: &HttpRequest) -> Option<String> {
        let name = req.headers().get("x-name")?.to_str().ok()?;
        (name != "nobody").then(|| name.to_owned())
    }

    #[rate_limit(max = 1, by = secret_name, name = "shown", on_error = "deny")]
    #[get("/echo/{tail:.*}")]
    async fn echo() -> &'static str {
        "ok"
    }

    #[actix_web::test]
    async fn nothing_that_the_client_sent_is_in_an_answer() {
        let (limiter, watch) = watched();
        let app = service!(limiter, echo);
        let ask = |name: &str| {
            get("/echo/%3Cmarker%3E?marker=marker")
                .insert_header(("x-name", name))
                .insert_header(("x-forwarded-for", "marker"))
                .insert_header(("cookie", "marker=marker"))
        };
        let mut seen = Vec::new();
        for (name, fails) in [("marker", false), ("marker", false), ("nobody", false), ("marker", true)] {
            watch.fail(fails);
            let answer = send(&app, ask(name)).await;
            assert!(!answer.text().contains("marker"), "{}", answer.text());
            assert!(!answer.text().contains(SECRET), "{}", answer.text());
            seen.push(answer.status);
        }
        assert_eq!(seen, [200, 429, 400, 503]);
    }
}

// ---- Whose count ------------------------------------------------------------------------------------------------

mod callers {
    use super::*;

    #[rate_limit(max = 1)]
    #[get("/ip")]
    async fn ip() -> &'static str {
        ""
    }

    #[actix_web::test]
    async fn clients_count_apart_by_their_address() {
        let app = service!(fresh(), ip);
        let cases = [
            ("192.0.2.1:1", 200, "a client"),
            ("192.0.2.1:2", 429, "the same from another port"),
            ("[::ffff:192.0.2.1]:3", 429, "the same, on a socket for IPv6"),
            ("192.0.2.2:1", 200, "its neighbour"),
            ("[::ffff:192.0.2.3]:1", 200, "another, on a socket for IPv6"),
            ("[2001:db8::1]:1", 200, "an IPv6 subscriber"),
            ("[2001:db8::ffff:2]:1", 429, "another address of the same /64"),
            ("[2001:db8:0:1::1]:1", 200, "the next /64"),
        ];
        for (peer, status, who) in cases {
            assert_eq!(send(&app, by(peer, "/ip")).await.status, status, "{who}");
        }
    }

    #[actix_web::test]
    async fn forwarded_headers_do_not_choose_the_caller() {
        let app = service!(fresh(), ip);
        for (address, status) in [("203.0.113.1", 200), ("203.0.113.2", 429)] {
            let forged = get("/ip")
                .insert_header(("x-forwarded-for", address))
                .insert_header(("forwarded", format!("for={address}")))
                .insert_header(("x-real-ip", address));
            assert_eq!(send(&app, forged).await.status, status);
        }
    }

    #[test]
    fn requests_without_an_address_are_one_caller_and_one_warning_says_so() {
        in_own_process(|| {
            let log = Log::of_process();
            actix_web::rt::System::new().block_on(async {
                let app = service!(fresh(), ip);
                for status in [200, 429, 429] {
                    let request = actix_web::test::TestRequest::get().uri("/ip");
                    assert_eq!(send(&app, request).await.status, status);
                }
                assert_eq!(send(&app, get("/ip")).await.status, 200);
            });
            let warnings = log.at(Level::WARN);
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            for words in ["TestRequest::peer_addr", "Unix socket", "trusted_proxies", "by = function"] {
                assert!(warnings[0].contains(words), "{warnings:?}");
            }
        });
    }

    #[rate_limit(max = 1, key = "shared")]
    #[get("/shared/1")]
    async fn shared_1() -> &'static str {
        ""
    }

    #[rate_limit(max = 1, key = "shared")]
    #[get("/shared/2")]
    async fn shared_2() -> &'static str {
        ""
    }

    #[rate_limit(max = 1)]
    #[get("/own")]
    async fn own() -> &'static str {
        ""
    }

    #[actix_web::test]
    async fn handlers_share_a_count_when_they_name_the_same_key() {
        let app = service!(fresh(), shared_1, shared_2, own);
        assert_eq!(statuses(&app, "/shared/1", 1).await, [200]);
        assert_eq!(statuses(&app, "/shared/2", 1).await, [429]);
        assert_eq!(send(&app, by("192.0.2.2:1", "/shared/2")).await.status, 200);
        assert_eq!(statuses(&app, "/own", 1).await, [200]);
    }

    #[rate_limit(max = 2, by = global)]
    #[get("/global")]
    async fn global() -> &'static str {
        ""
    }

    #[actix_web::test]
    async fn a_global_limit_counts_everybody_as_one() {
        let app = service!(fresh(), global);
        for (peer, status) in [("192.0.2.1:1", 200), ("[2001:db8::1]:1", 200), ("192.0.2.3:1", 429)] {
            assert_eq!(send(&app, by(peer, "/global")).await.status, status);
        }
    }

    struct User(u64);

    fn user_or_address(req: &HttpRequest) -> Key {
        match req.extensions().get::<User>() {
            Some(user) => user.0.into_key(),
            None => client_ip(req).into_key(),
        }
    }

    fn item(req: &HttpRequest) -> &str {
        req.match_info().get("item").unwrap_or_default()
    }

    fn tenant(req: &HttpRequest) -> Option<&str> {
        req.headers().get("x-tenant")?.to_str().ok()
    }

    #[rate_limit(max = 1, by = user_or_address)]
    #[get("/user")]
    async fn by_user() -> &'static str {
        ""
    }

    #[rate_limit(max = 1, by = item)]
    #[get("/item/{item}")]
    async fn by_item() -> &'static str {
        ""
    }

    #[rate_limit(max = 1, by = tenant)]
    #[get("/tenant")]
    async fn by_tenant() -> &'static str {
        ""
    }

    #[actix_web::test]
    async fn a_function_says_who_the_caller_is() {
        let app = service!(fresh(), by_user, by_item, by_tenant);
        for (id, status) in [(1, 200), (2, 200), (1, 429)] {
            let request = get("/user").to_request();
            request.extensions_mut().insert(User(id));
            assert_eq!(send_raw(&app, request).await.status, status, "user {id}");
        }
        assert_eq!(statuses(&app, "/user", 2).await, [200, 429]);
        assert_eq!(statuses(&app, "/item/1", 2).await, [200, 429]);
        assert_eq!(statuses(&app, "/item/2", 1).await, [200]);
        for (tenant, status) in [("a", 200), ("A", 200), ("a", 429)] {
            let request = get("/tenant").insert_header(("x-tenant", tenant));
            assert_eq!(send(&app, request).await.status, status, "tenant {tenant}");
        }
        assert_eq!(statuses(&app, "/tenant", 1).await, [400]);
    }
}

// ---- What is counted --------------------------------------------------------------------------------------------

mod counting {
    use super::*;

    #[rate_limit(max = 3)]
    #[rate_limit(max = 2, window = "1h", by = global)]
    #[get("/stacked")]
    #[rate_limit(max = 9, window = "1d", cost = 3)]
    async fn stacked() -> &'static str {
        ""
    }

    #[actix_web::test]
    async fn stacked_limits_are_one_question_to_the_store() {
        let (limiter, watch) = watched();
        let app = service!(limiter, stacked);
        assert_eq!(statuses(&app, "/stacked", 1).await, [200]);
        assert_eq!((watch.calls(), watch.limits()), (1, 3));
    }

    #[rate_limit(max = 2, key = "probe", window = "1h")]
    #[rate_limit(max = 1, key = "obstacle", by = global)]
    #[get("/obstructed")]
    async fn obstructed() -> &'static str {
        ""
    }

    #[rate_limit(max = 2, key = "probe", window = "1h")]
    #[get("/probe")]
    async fn probe() -> &'static str {
        ""
    }

    #[actix_web::test]
    async fn a_request_that_one_limit_denies_takes_nothing_from_the_others() {
        let app = service!(fresh(), obstructed, probe);
        assert_eq!(statuses(&app, "/obstructed", 5).await, [200, 429, 429, 429, 429]);
        assert_eq!(statuses(&app, "/probe", 2).await, [200, 429]);
    }

    #[rate_limit(max = 1)]
    #[route("/methods", method = "GET", method = "HEAD", method = "POST", method = "OPTIONS")]
    async fn methods() -> &'static str {
        "body"
    }

    #[actix_web::test]
    async fn options_is_not_counted() {
        let (limiter, watch) = watched();
        let app = service!(limiter, methods);
        for _ in 0..3 {
            let answer = send(&app, request(Method::OPTIONS, "/methods")).await;
            assert_eq!((answer.status, answer.quota()), (200, None));
        }
        assert_eq!(watch.calls(), 0);
        assert_eq!(statuses(&app, "/methods", 2).await, [200, 429]);
        assert_eq!(send(&app, request(Method::OPTIONS, "/methods")).await.status, 200);
    }

    #[actix_web::test]
    async fn all_other_methods_share_the_count() {
        let app = service!(fresh(), methods);
        assert_eq!(send(&app, request(Method::HEAD, "/methods")).await.status, 200);
        assert_eq!(send(&app, request(Method::GET, "/methods")).await.status, 429);
        assert_eq!(send(&app, request(Method::POST, "/methods")).await.status, 429);
    }

    static EXTRACTIONS: AtomicUsize = AtomicUsize::new(0);

    struct Extracted;

    impl FromRequest for Extracted {
        type Error = actix_web::Error;
        type Future = std::future::Ready<Result<Self, Self::Error>>;

        fn from_request(_: &HttpRequest, _: &mut Payload) -> Self::Future {
            EXTRACTIONS.fetch_add(1, Ordering::SeqCst);
            std::future::ready(Ok(Self))
        }
    }

    #[rate_limit(max = 1)]
    #[get("/extracted")]
    async fn extracted(_extracted: Extracted) -> &'static str {
        ""
    }

    #[actix_web::test]
    async fn the_arguments_of_a_denied_request_are_not_extracted() {
        let app = service!(fresh(), extracted);
        assert_eq!(statuses(&app, "/extracted", 3).await, [200, 429, 429]);
        assert_eq!(EXTRACTIONS.load(Ordering::SeqCst), 1);
    }

    #[rate_limit(max = 1)]
    #[post("/body")]
    async fn body(body: String) -> String {
        body
    }

    #[actix_web::test]
    async fn a_body_is_not_touched_before_a_slow_store_has_decided() {
        let (limiter, watch) = watched();
        let app = service!(limiter, body);
        let post = || request(Method::POST, "/body").to_request();

        watch.hold();
        let (passing, polls) = with_watched_body(post());
        let mut answer = Box::pin(send_raw(&app, passing));
        assert!(futures_util::poll!(&mut answer).is_pending());
        assert_eq!(polls.load(Ordering::SeqCst), 0, "read while the store was thinking");
        watch.release();
        assert_eq!(answer.await.body, "hello");
        assert!(polls.load(Ordering::SeqCst) > 0);

        let (denied, polls) = with_watched_body(post());
        let mut answer = Box::pin(send_raw(&app, denied));
        assert!(futures_util::poll!(&mut answer).is_pending());
        watch.release();
        assert_eq!(answer.await.status, 429);
        assert_eq!(polls.load(Ordering::SeqCst), 0, "read although denied");
    }

    #[actix_web::test]
    async fn a_client_that_leaves_while_the_store_decides_disturbs_nobody() {
        let (limiter, watch) = watched();
        let app = service!(limiter, probe);
        watch.hold();
        let mut abandoned = Box::pin(send(&app, get("/probe")));
        assert!(futures_util::poll!(&mut abandoned).is_pending());
        drop(abandoned);
        watch.release();
        assert_eq!(statuses(&app, "/probe", 1).await, [200]);
    }
}

// ---- Which limiter ----------------------------------------------------------------------------------------------

mod limiters {
    use super::*;

    // The log is the one algorithm for which it does not matter when a test without a clock of its own runs.
    #[rate_limit(max = 1, algorithm = "sliding_window_log")]
    async fn handler() -> &'static str {
        ""
    }

    #[actix_web::test]
    async fn the_nearest_limiter_counts() {
        let inner = web::scope("/inner").app_data(Data::new(fresh())).route("", web::get().to(handler));
        let app = service!(fresh(), web::resource("/outer").to(handler), inner);
        assert_eq!(statuses(&app, "/outer", 2).await, [200, 429]);
        assert_eq!(statuses(&app, "/inner", 2).await, [200, 429]);
    }

    #[actix_web::test]
    async fn workers_that_share_a_limiter_share_its_counts() {
        let limiter = fresh();
        let workers = [
            service!(limiter, web::resource("/").to(handler)),
            service!(limiter, web::resource("/").to(handler)),
        ];
        assert_eq!(statuses(&workers[0], "/", 1).await, [200]);
        assert_eq!(statuses(&workers[1], "/", 1).await, [429]);
    }

    #[test]
    fn without_a_limiter_the_limit_holds_and_one_warning_names_the_fix() {
        in_own_process(|| {
            let log = Log::of_process();
            actix_web::rt::System::new().block_on(async {
                for status in [200, 429] {
                    let app = init_service(App::new().route("/", web::get().to(handler))).await;
                    assert_eq!(statuses(&app, "/", 1).await, [status]);
                }
            });
            let warnings = log.at(Level::WARN);
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert!(warnings[0].contains("app_data(limiter.clone())"), "{warnings:?}");
            assert!(warnings[0].contains("install"), "{warnings:?}");
        });
    }

    #[test]
    fn an_installed_limiter_counts_for_handlers_that_find_no_other() {
        in_own_process(|| {
            let log = Log::of_process();
            let (limiter, watch) = watched();
            limiter.install().unwrap();
            actix_web::rt::System::new().block_on(async {
                let app = init_service(App::new().route("/", web::get().to(handler))).await;
                assert_eq!(statuses(&app, "/", 2).await, [200, 429]);
                assert_eq!(watch.calls(), 2);
                let app = service!(fresh(), web::resource("/").to(handler));
                assert_eq!(statuses(&app, "/", 1).await, [200], "a registered one comes first");
            });
            assert!(log.at(Level::WARN).is_empty());
        });
    }

    #[actix_web::test]
    async fn while_the_store_cannot_answer_the_limit_holds_in_process_and_no_client_is_told() {
        let (limiter, watch) = watched();
        let app = service!(limiter, web::resource("/").to(handler));
        watch.fail(true);
        let passed = send(&app, get("/")).await;
        assert_eq!(
            (passed.status, passed.quota().map(|(limit, left, _)| (limit, left))),
            (200, Some((1, 0)))
        );
        let denied = send(&app, get("/")).await;
        assert_eq!(denied.status, 429);
        for answer in [passed, denied] {
            assert!(!answer.text().contains(SECRET), "{}", answer.text());
        }
        watch.fail(false);
        // What was counted meanwhile is not handed on.
        assert_eq!(statuses(&app, "/", 2).await, [200, 429]);
    }

    #[rate_limit(max = 1, on_error = "deny")]
    async fn strict() -> &'static str {
        ""
    }

    #[rate_limit(max = 1, on_error = "allow")]
    async fn lenient() -> &'static str {
        ""
    }

    #[actix_web::test]
    async fn a_limit_can_deny_or_allow_while_the_store_cannot_answer() {
        let (limiter, watch) = watched();
        let app = service!(limiter, web::resource("/strict").to(strict));
        watch.fail(true);
        let answer = send(&app, get("/strict")).await;
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
        assert_eq!(answer.quota(), None);
        assert!(!answer.text().contains(SECRET), "{}", answer.text());
        watch.fail(false);
        assert_eq!(statuses(&app, "/strict", 2).await, [200, 429]);

        let (limiter, watch) = watched();
        let app = service!(limiter, web::resource("/lenient").to(lenient));
        watch.fail(true);
        assert_eq!(statuses(&app, "/lenient", 3).await, [200, 200, 200]);
        watch.fail(false);
        assert_eq!(statuses(&app, "/lenient", 2).await, [200, 429]);
    }

    #[test]
    fn an_outage_is_logged_when_it_begins_and_when_it_ends() {
        in_own_process(|| {
            let log = Log::of_process();
            actix_web::rt::System::new().block_on(async {
                let (limiter, watch) = watched();
                let broken = service!(limiter, web::resource("/").to(handler));
                let sound = service!(fresh(), web::resource("/").to(handler));
                for _ in 0..2 {
                    watch.fail(true);
                    for _ in 0..3 {
                        statuses(&broken, "/", 1).await;
                        statuses(&sound, "/", 1).await;
                    }
                    watch.fail(false);
                    // After a second without a failure the store counts as back.
                    let end = Instant::now() + Duration::from_secs(20);
                    let told = log.at(Level::INFO).len();
                    while log.at(Level::INFO).len() == told {
                        assert!(Instant::now() < end, "nothing tells that the store is back");
                        statuses(&broken, "/", 1).await;
                        actix_web::rt::time::sleep(Duration::from_millis(10)).await;
                    }
                    statuses(&broken, "/", 3).await;
                }
            });
            let errors = log.at(Level::ERROR);
            assert_eq!(errors.len(), 2, "{errors:?}");
            assert!(errors[0].contains(&format!("the store cannot be reached: {SECRET}")), "{errors:?}");
            assert_eq!(log.at(Level::INFO).len(), 2);
        });
    }
}

// ---- The demo service, over real connections --------------------------------------------------------------------

mod demo {
    use super::*;

    const DEMO: &str = env!("CARGO_BIN_EXE_demo");

    /// Longest wait for something that takes about a second: a limit for the test, not a measure.
    const PATIENCE: Duration = Duration::from_secs(20);

    fn status(demo: &Demo, method: &str, path: &str, headers: &[&str]) -> u16 {
        client::send(demo.address, method, path, headers).status
    }

    /// Waits until the demo is connected to its store.
    fn connected(demo: Demo, url: &str) -> Demo {
        redis::ask(url, "FLUSHALL");
        let counts_there = || {
            status(&demo, "GET", "/api/data", &[]);
            redis::ask(url, "DBSIZE") != ":0"
        };
        assert!(within(PATIENCE, counts_there));
        redis::ask(url, "FLUSHALL");
        demo
    }

    /// Twelve requests against ten a minute. `store` gives the variables for a store in which nothing is counted yet.
    fn twelve_requests(algorithm: &str, mut store: impl FnMut() -> Option<(&'static str, String)>) {
        let replies = within_one_minute(|| {
            let store = store();
            let mut variables = vec![("ALGORITHM", algorithm)];
            variables.extend(store.as_ref().map(|(name, value)| (*name, value.as_str())));
            let demo = Demo::start(DEMO, &variables);
            let demo = if let Some((_, url)) = &store { connected(demo, url) } else { demo };
            let reply = |_| client::get(demo.address, "/api/public", &[]);
            (0..12).map(reply).collect::<Vec<_>>()
        });
        for (i, reply) in replies.iter().enumerate() {
            let remaining = reply.header("x-ratelimit-remaining").unwrap();
            assert_eq!(reply.header("x-ratelimit-limit"), Some("10"), "{algorithm}");
            if i < 10 {
                assert_eq!((reply.status, reply.body.as_str()), (200, "public data\n"), "{algorithm}");
                assert_eq!(remaining, (9 - i).to_string(), "{algorithm}");
                assert_eq!(reply.header("retry-after"), None, "{algorithm}");
            } else {
                assert_eq!((reply.status, remaining), (429, "0"), "{algorithm}");
                let seconds: u64 = reply.header("retry-after").unwrap().parse().unwrap();
                assert!((1..=61).contains(&seconds), "{algorithm}: {seconds}");
                assert!(reply.body.contains(&format!("\"retryAfter\":{seconds}")), "{}", reply.body);
            }
        }
    }

    const ALGORITHMS: [&str; 4] =
        ["fixed_window", "sliding_window_counter", "sliding_window_log", "token_bucket"];

    #[test]
    fn of_twelve_requests_ten_pass_with_every_algorithm() {
        for algorithm in ALGORITHMS {
            twelve_requests(algorithm, || None);
        }
    }

    #[test]
    fn of_twelve_requests_ten_pass_through_redis_as_well() {
        let Some(mut server) = redis::server() else { return };
        for algorithm in ALGORITHMS {
            twelve_requests(algorithm, || {
                server.restart();
                Some(("REDIS_URL", server.url()))
            });
        }
    }

    #[test]
    fn two_services_on_one_redis_are_limited_as_one() {
        let Some(mut server) = redis::server() else { return };
        within_one_minute(|| {
            server.restart();
            let url = server.url();
            let demos = [(); 2].map(|()| connected(Demo::start(DEMO, &[("REDIS_URL", &url)]), &url));
            assert!(demos[0].introduction.contains("store: redis"), "{}", demos[0].introduction);
            for i in 0..12 {
                let expected = if i < 10 { 200 } else { 429 };
                assert_eq!(status(&demos[i % 2], "GET", "/api/public", &[]), expected, "request {i}");
            }
        });
    }

    #[test]
    fn while_redis_is_down_limits_hold_in_process_and_then_are_shared_again() {
        let Some(mut server) = redis::server() else { return };
        let demo = Demo::start(DEMO, &[("REDIS_URL", &server.url()), ("RUST_LOG", "off")]);
        let demo = connected(demo, &server.url());
        server.kill();
        within_one_minute(|| {
            let seen: Vec<u16> = (0..12).map(|_| status(&demo, "GET", "/api/public", &[])).collect();
            // Told twice when the first story met the edge of a minute; then the ten may be used up.
            assert!(seen.iter().all(|status| [200, 429].contains(status)), "{seen:?}");
            assert_eq!(seen[10..], [429, 429]);
        });
        assert_eq!(status(&demo, "GET", "/api/status", &[]), 200);
        server.restart();
        assert!(within(PATIENCE, || {
            status(&demo, "GET", "/api/data", &[]);
            server.ask("DBSIZE") != ":0"
        }));
    }

    #[test]
    fn every_endpoint_has_its_own_limit() {
        let endpoints = [
            ("GET", "/api/data", 100),
            ("POST", "/api/expensive-operation", 10),
            ("GET", "/api/user/7", 50),
            ("POST", "/api/login", 5),
            ("GET", "/api/protected", 10),
        ];
        within_one_minute(|| {
            let demo = Demo::start(DEMO, &[]);
            for (method, path, limit) in endpoints {
                for i in 0..=limit {
                    let expected = if i < limit { 200 } else { 429 };
                    assert_eq!(status(&demo, method, path, &[]), expected, "{path}, request {i}");
                }
            }
            for _ in 0..101 {
                assert_eq!(status(&demo, "GET", "/api/status", &[]), 200);
            }
        });
    }

    #[test]
    fn only_a_known_api_key_is_a_caller_of_its_own() {
        within_one_minute(|| {
            let demo = Demo::start(DEMO, &[]);
            let ask = |key: &str| status(&demo, "GET", "/api/protected", &[&format!("X-API-Key: {key}")]);
            for _ in 0..10 {
                assert_eq!(ask("alice-key"), 200);
            }
            assert_eq!(ask("alice-key"), 429);
            assert_eq!(ask("bob-key"), 200);
            for made_up in 0..10 {
                assert_eq!(ask(&format!("made-up-{made_up}")), 200);
            }
            assert_eq!(ask("made-up-10"), 429);
            assert_eq!(status(&demo, "GET", "/api/protected", &[]), 429);
        });
    }

    #[test]
    fn a_denied_upload_is_answered_without_waiting_for_it() {
        within_one_minute(|| {
            let demo = Demo::start(DEMO, &[]);
            for _ in 0..5 {
                assert_eq!(status(&demo, "POST", "/api/login", &[]), 200);
            }
            assert_eq!(status(&demo, "POST", "/api/login", &["Content-Length: 1000000"]), 429);
        });
    }

    #[test]
    fn it_says_where_it_listens_and_where_it_counts() {
        let demo = Demo::start(DEMO, &[("BIND", "127.0.0.1")]);
        let expected = format!("Listening on http://{}, store: memory. Try:", demo.address);
        assert_eq!(demo.introduction, expected);
    }

    #[test]
    fn a_wrong_setting_is_named_and_not_repeated() {
        let cases = [
            ("PORT", "80a", "error: PORT must be a number from 0 to 65535: invalid digit found in string\n"),
            (
                "PORT",
                "65536",
                "error: PORT must be a number from 0 to 65535: number too large to fit in target type\n",
            ),
            ("BIND", "localhost", "error: BIND must be an IP address: invalid IP address syntax\n"),
            (
                "ALGORITHM",
                "leaky",
                "error: ALGORITHM must be fixed_window, sliding_window_counter, sliding_window_log or token_bucket\n",
            ),
        ];
        for (variable, value, expected) in cases {
            assert_eq!(Demo::refusal(DEMO, &[(variable, value)]), expected);
        }
        for url in ["hunter2", "http://user:hunter2@127.0.0.1/", ""] {
            let said = Demo::refusal(DEMO, &[("REDIS_URL", url)]);
            assert!(said.starts_with("error: REDIS_URL cannot be used: "), "{said}");
            assert!(!said.contains("hunter2"), "{said}");
        }
    }

    #[test]
    fn a_port_that_is_taken_is_a_clear_error() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let said = Demo::refusal(DEMO, &[("PORT", &address.port().to_string())]);
        assert!(said.starts_with(&format!("error: cannot listen on {address}: ")), "{said}");
    }
}
