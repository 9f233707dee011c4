//! How often the extractors of closures run: by reference once for all closures of the request's limits, by
//! value once for each.

use std::cell::Cell;
use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::error::ErrorUnauthorized;
use actix_web::web::{Path, Query};
use actix_web::{Error, FromRequest, HttpRequest, get, test::TestRequest};
use ratelimit_actix::{concurrency_limit, rate_limit};
use tests::answer::{by, get as from_client};
use tests::store::fresh;
use tests::{send, service};

thread_local! {
    /// How often tokens have been verified. Each test has a thread.
    static VERIFIED: Cell<usize> = const { Cell::new(0) };
}

/// The owner of a token, whose verification is expensive; tokens are names of owners.
struct Auth {
    name: String,
    id: u64,
}

impl FromRequest for Auth {
    type Error = Error;
    type Future = Ready<Result<Self, Error>>;

    fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
        VERIFIED.set(VERIFIED.get() + 1);
        let token = req.headers().get("x-token").and_then(|token| token.to_str().ok());
        ready(match token {
            None | Some("wrong") => Err(ErrorUnauthorized(format!("wrong, try {}", VERIFIED.get()))),
            Some(name) => Ok(Self { name: name.to_owned(), id: name.len() as u64 }),
        })
    }
}

fn with_token(token: &str, path: &str) -> TestRequest {
    from_client(path).insert_header(("x-token", token))
}

/// Status, and how often the token was verified.
macro_rules! verified {
    ($app:expr, $request:expr) => {{
        VERIFIED.set(0);
        let answer = send(&$app, $request).await;
        (answer.status, VERIFIED.get())
    }};
}

#[rate_limit(max = |auth: &Auth| auth.id, by = |auth: &Auth| auth.id, skip = |auth: &Auth| auth.id == 0, cost = |auth: &Auth| auth.id)]
#[get("/reference")]
async fn by_reference(_auth: Auth) -> &'static str {
    "ok"
}

#[rate_limit(max = |auth: Auth| auth.id, by = |auth: Auth| auth.id, skip = |auth: Auth| auth.id == 0, cost = |auth: Auth| auth.id)]
#[get("/value")]
async fn by_value(_auth: Auth) -> &'static str {
    "ok"
}

#[actix_web::test]
async fn all_closures_by_reference_share_one_extraction() {
    let app = service!(fresh(), by_reference, by_value);
    // The handler's own argument is one more.
    assert_eq!(verified!(app, with_token("ann", "/reference")), (200, 2));
    assert_eq!(verified!(app, with_token("ann", "/reference")), (429, 1));
    assert_eq!(verified!(app, with_token("ann", "/value")), (200, 5));
    assert_eq!(verified!(app, with_token("ann", "/value")), (429, 4));
}

#[rate_limit(max = 9, by = |auth: &Auth| auth.name.as_str(), plan = |auth: &Auth| auth.name.as_str())]
#[rate_limit(max = 9, by = (ip, |auth: &Auth, path: Path<u64>| (auth.name.clone(), *path)), skip = async |auth: &Auth| auth.id == 0)]
#[concurrency_limit(max = |auth: &Auth, req: &HttpRequest| auth.id + req.path().len() as u64, by = |Auth { id, .. }: &Auth| *id)]
#[get("/stacked/{id}")]
async fn stacked() -> &'static str {
    "ok"
}

#[actix_web::test]
async fn stacked_limits_of_both_kinds_share_as_well() {
    let app = service!(fresh(), stacked);
    assert_eq!(verified!(app, with_token("ann", "/stacked/7")), (200, 1));
    assert_eq!(verified!(app, with_token("bob", "/stacked/7")), (200, 1), "each request has its own");
}

#[rate_limit(max = 1, by = |auth: &Auth| auth.name.as_str())]
#[get("/borrowed")]
async fn borrowed() -> &'static str {
    "ok"
}

#[actix_web::test]
async fn a_caller_may_borrow_from_what_is_shared() {
    let app = service!(fresh(), borrowed);
    assert_eq!(verified!(app, with_token("ann", "/borrowed")), (200, 1));
    assert_eq!(verified!(app, with_token("ann", "/borrowed")), (429, 1));
    assert_eq!(verified!(app, with_token("bob", "/borrowed")), (200, 1));
}

#[rate_limit(max = 9, mode = "shadow", by = |auth: &Auth| auth.id)]
#[rate_limit(max = 9, by = |auth: &Auth| auth.id, cost = |auth: &Auth| auth.id, key = "enforced")]
#[rate_limit(max = 2, by = ip)]
#[get("/guess")]
async fn guessed() -> &'static str {
    "ok"
}

#[rate_limit(max = 9, mode = "shadow", by = |auth: &Auth| auth.id)]
#[rate_limit(max = 2, by = ip)]
#[get("/shadow")]
async fn shadow() -> &'static str {
    "ok"
}

#[actix_web::test]
async fn an_extraction_that_fails_is_shared_and_leaves_out_each_limit_that_needs_it() {
    let app = service!(fresh(), guessed, shadow);
    let guess = |path: &str| with_token("wrong", path);
    // The shadow limit is no reason to reject, the next limit is, with the extractor's own error.
    let answer = send(&app, guess("/guess")).await;
    assert_eq!((answer.status, answer.body.as_str()), (401, "wrong, try 1"));
    assert_eq!(answer.quota().map(|(_, left, _)| left), Some(1), "charged by address");
    assert_eq!(verified!(app, guess("/guess")), (401, 1));
    assert_eq!(verified!(app, guess("/guess")), (429, 1));
    assert_eq!(verified!(app, guess("/shadow")), (200, 1));
}

/// A query with a number.
#[derive(serde::Deserialize)]
struct Number {
    n: u64,
}

#[rate_limit(max = |number: &Query<Number>| number.n, by = |auth: &Auth| auth.id)]
#[get("/types")]
async fn types() -> &'static str {
    "ok"
}

#[actix_web::test]
async fn each_type_is_extracted_for_itself() {
    let app = service!(fresh(), types);
    assert_eq!(verified!(app, with_token("ann", "/types?n=1")), (200, 1));
    assert_eq!(verified!(app, with_token("ann", "/types?n=1")), (429, 1));
    assert_eq!(verified!(app, with_token("bob", "/types?n=word")), (400, 1));
    assert_eq!(verified!(app, by("198.51.100.1:1", "/types?n=word")), (401, 1), "the first that fails");
}
