//! The caller of a limit: what the rows `key`, `by` and `on_missing` of the table do not show.

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::{Next, from_fn};
use actix_web::test::init_service;
use actix_web::web::Path;
use actix_web::{
    App, Error, FromRequest, HttpMessage, HttpRequest, HttpResponse, ResponseError, get, post, routes, web,
};
use ratelimit_actix::{Principal, client_ip, rate_limit};
use tests::answer::{by, get as from_client};
use tests::store::{fresh, watched};
use tests::{send, service};

/// Whether each of these requests passes, one after the other.
macro_rules! passes {
    ($app:expr, $($request:expr),+ $(,)?) => {
        [$(send(&$app, $request).await.status == 200),+]
    };
}

// ---- Templates --------------------------------------------------------------------------------------------

#[rate_limit(max = 1, key = "both:{id}")]
#[routes]
#[get("/one/{id}")]
#[post("/two/{id:\\d{2}}")]
async fn both() -> &'static str {
    "ok"
}

#[actix_web::test]
async fn routes_of_one_handler_share_what_their_parameter_names() {
    let app = service!(fresh(), both);
    let post = from_client("/two/77").method(actix_web::http::Method::POST);
    assert_eq!(passes!(app, from_client("/one/77"), post, from_client("/one/78")), [true, false, true]);
}

// ---- Words, functions and closures ------------------------------------------------------------------------

fn api_key(req: &HttpRequest) -> Option<&str> {
    req.headers().get("x-api-key")?.to_str().ok()
}

/// A user, as authentication in front of the handler has left it.
#[derive(Clone)]
struct User(u64);

#[derive(Debug)]
struct Unknown;

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("who are you?")
    }
}

impl ResponseError for Unknown {
    fn error_response(&self) -> HttpResponse {
        HttpResponse::Unauthorized().body("who are you?")
    }
}

impl FromRequest for User {
    type Error = Error;
    type Future = std::future::Ready<Result<Self, Error>>;

    fn from_request(req: &HttpRequest, _: &mut actix_web::dev::Payload) -> Self::Future {
        let id = req.headers().get("x-user").and_then(|id| id.to_str().ok()?.parse().ok());
        std::future::ready(id.map(User).ok_or_else(|| Unknown.into()))
    }
}

macro_rules! handlers {
    ($($path:literal $name:ident: $by:expr;)*) => {$(
        #[rate_limit(max = 1, by = $by)]
        #[get($path)]
        async fn $name() -> &'static str {
            "ok"
        }
    )*};
}

handlers! {
    "/header" by_header: header("X-Api-Key");
    "/user" by_extractor: |user: User| user.0;
    "/several/{id}" by_extractors: |path: Path<(u64,)>, req: HttpRequest| (path.0, client_ip(&req));
    "/account" by_account: principal;
    "/account-or-address" by_account_or_address: principal_or_ip;
}

fn keyed(path: &str, key: &'static str) -> actix_web::test::TestRequest {
    from_client(path).insert_header(("x-api-key", key)).insert_header(("x-user", key))
}

#[actix_web::test]
async fn a_failing_extractor_sends_its_own_error_without_a_store_call() {
    let (limiter, watch) = watched();
    let app = service!(limiter, by_extractor, by_extractors);
    let answer = send(&app, from_client("/user")).await;
    assert_eq!((answer.status, answer.body.as_str(), answer.quota()), (401, "who are you?", None));
    assert_eq!(send(&app, from_client("/several/word")).await.status, 404);
    assert_eq!(watch.calls(), 0);
}

async fn authenticate(
    req: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    if let Some(account) = api_key(req.request()).map(str::to_owned) {
        req.extensions_mut().insert(Principal::new(account));
    }
    next.call(req).await
}

#[actix_web::test]
async fn the_words_for_verified_accounts_need_no_import() {
    let app = App::new().app_data(web::Data::new(fresh())).wrap(from_fn(authenticate));
    let app = init_service(app.service(by_account).service(by_account_or_address)).await;
    for path in ["/account", "/account-or-address"] {
        let requests = passes!(app, keyed(path, "7"), keyed(path, "8"), keyed(path, "7"));
        assert_eq!(requests, [true, true, false], "{path}");
    }
    // Without an account.
    assert_eq!(send(&app, from_client("/account")).await.status, 400);
    assert_eq!(
        passes!(app, from_client("/account-or-address"), from_client("/account-or-address")),
        [true, false]
    );
}

#[rate_limit(max = 1, by = |body: Path<String>| body.into_inner())]
#[post("/body/{id}")]
async fn with_body(body: String) -> String {
    body
}

#[actix_web::test]
async fn the_handler_still_gets_the_body() {
    let app = service!(fresh(), with_body);
    let request = from_client("/body/1").method(actix_web::http::Method::POST).set_payload("hello");
    assert_eq!(send(&app, request).await.body, "hello");
}

// ---- Missing callers --------------------------------------------------------------------------------------

#[rate_limit(max = 1, by = header("x-api-key"), on_missing = "skip")]
#[rate_limit(max = 3, key = "address")]
#[get("/skip")]
async fn skip_missing() -> &'static str {
    "ok"
}

#[rate_limit(max = 1, by = header("x-api-key"), on_missing = "anonymous")]
#[get("/anonymous")]
async fn anonymous() -> &'static str {
    "ok"
}

#[rate_limit(max = 1, key = "{header:x-api-key}", on_missing = "reject")]
#[get("/reject")]
async fn reject() -> &'static str {
    "ok"
}

#[actix_web::test]
async fn a_missing_caller_is_rejected_skipped_or_anonymous() {
    let (limiter, watch) = watched();
    let app = service!(limiter, skip_missing, anonymous, reject);
    assert_eq!(send(&app, from_client("/reject")).await.status, 400);
    assert_eq!(watch.calls(), 0);

    // Skipped: only the other limit of the handler counts.
    let answer = send(&app, from_client("/skip")).await;
    assert_eq!((answer.status, answer.quota().unwrap().0), (200, 3));
    assert_eq!(watch.limits(), 1);
    assert_eq!(passes!(app, keyed("/skip", "a"), keyed("/skip", "a")), [true, false]);

    // Anonymous: requests without a key share one caller, which differs from that of an empty or any other
    // key.
    let path = "/anonymous";
    assert_eq!(
        passes!(app, from_client(path), by("198.51.100.1:1", path), keyed(path, "a")),
        [true, false, true]
    );
}

#[actix_web::test]
async fn an_empty_header_is_no_caller() {
    let app = service!(fresh(), by_header);
    assert_eq!(send(&app, keyed("/header", "")).await.status, 400);
}
