//! Every form of caller: templates, words, calls, functions, closures and tuples.

use actix_web::web::{Path, Query};
use actix_web::{App, HttpRequest, get, post, routes, web};
use ratelimit_actix::{Caller, client_ip, rate_limit};

struct Part<const N: usize>;

impl<const N: usize> Part<N> {
    fn of(req: &HttpRequest) -> u64 {
        (req.path().len() + N) as u64
    }
}

fn api_key(req: &HttpRequest) -> Option<&str> {
    req.headers().get("x-api-key")?.to_str().ok()
}

mod templates {
    use super::*;

    #[rate_limit(key = "user:{user_id}")]
    #[get("/user/{user_id}")]
    pub(super) async fn one() -> &'static str {
        "ok"
    }

    #[rate_limit(key = "{path:org}:{header:X-API-Key}:{ip}:{id}")]
    #[routes]
    #[get("/a/{id:\\d{2}}")]
    #[post("/b/{id}*")]
    pub(super) async fn several() -> &'static str {
        "ok"
    }

    #[rate_limit(key = "file:{tail}", on_missing = "skip")]
    #[get("/{tail:.*}")]
    pub(super) async fn tail() -> &'static str {
        "ok"
    }

    #[post("/below/{id}")]
    #[rate_limit(key = "below:{id}")]
    pub(super) async fn below() -> &'static str {
        "ok"
    }
}

#[rate_limit(by = path("id"))]
#[get("/path/{id}")]
async fn by_path() -> &'static str {
    "ok"
}

#[rate_limit(by = path("organisation"))]
#[get("/scoped/{id}")]
async fn by_scope() -> &'static str {
    "ok"
}

#[rate_limit(by = header("x-api-key"), on_missing = "anonymous")]
#[get("/header")]
async fn by_header() -> &'static str {
    "ok"
}

#[rate_limit(by = (self::api_key, Part::<3>::of, path("id"), ip, header("x-tenant"), |req: &HttpRequest| req.path().len()))]
#[get("/tuple/{id}")]
async fn by_tuple() -> &'static str {
    "ok"
}

#[rate_limit(by = (ip,))]
#[get("/one")]
async fn by_one() -> &'static str {
    "ok"
}

#[rate_limit(by = |req: &HttpRequest| req.headers().get("x-api-key")?.to_str().ok())]
#[get("/borrowed")]
async fn by_borrowed() -> &'static str {
    "ok"
}

#[rate_limit(by = |_: &HttpRequest| -> Caller { ratelimit_actix::IntoCaller::into_caller(7) })]
#[get("/typed")]
async fn by_typed() -> &'static str {
    "ok"
}

#[rate_limit(by = move |Query(query): Query<Vec<(String, String)>>, req: HttpRequest| {
    if query.is_empty() {
        return None;
    }
    Some((query.len(), client_ip(&req)))
})]
#[get("/extractors")]
async fn by_extractors() -> &'static str {
    "ok"
}

#[rate_limit(by = async |id: Path<u64>| *id, name = "later")]
#[rate_limit(by = (ip, async move |req: &HttpRequest| api_key(req).map(str::to_owned)))]
#[get("/async/{id}")]
async fn by_async() -> &'static str {
    "ok"
}

#[rate_limit(by = |id: &Path<String>| id.as_str(), max = async |id: &Path<String>, _: &HttpRequest| id.len() as u64)]
#[rate_limit(by = (ip, |Query(query): &Query<Vec<(String, String)>>, _: Path<u64>, id: &Path<String>| (query.len(), id.as_str())), name = "mixed")]
#[rate_limit(plan = |id: &Path<String>| id.as_str(), skip = |itself: &Path<u64>| **itself == 0, name = "planned")]
#[get("/reference/{id}")]
async fn by_reference() -> &'static str {
    "ok"
}

/// Another name of the request is that of an extractor.
type Request = HttpRequest;

#[rate_limit(by = |req: &Request| req.path())]
#[get("/alias")]
async fn by_alias() -> &'static str {
    "ok"
}

#[rate_limit(by = |id: Path<String>| id.into_inner())]
async fn generic<T: Default + ToString>() -> String {
    T::default().to_string()
}

pub fn main() {
    let _ = App::new()
        .service(templates::one)
        .service(templates::several)
        .service(templates::tail)
        .service(templates::below)
        .service(by_path)
        .service(web::scope("/{organisation}").service(by_scope))
        .service(by_header)
        .service(by_tuple)
        .service(by_one)
        .service(by_borrowed)
        .service(by_typed)
        .service(by_extractors)
        .service(by_async)
        .service(by_reference)
        .service(by_alias)
        .route("/{id}", web::get().to(generic::<u8>));
}
