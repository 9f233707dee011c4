//! No extractors, 16 of them, patterns as arguments, and arguments under `cfg`.

use actix_web::{App, HttpRequest, get, post, web};
use ratelimit_actix::rate_limit;
use serde::Deserialize;

#[derive(Deserialize)]
struct Page {
    number: u64,
}

#[rate_limit]
#[get("/none")]
async fn none() -> &'static str {
    "ok"
}

type R = HttpRequest;

#[rate_limit]
#[post("/sixteen")]
#[allow(clippy::too_many_arguments)]
async fn sixteen(
    a: R,
    b: R,
    c: R,
    d: R,
    e: R,
    f: R,
    g: R,
    h: R,
    i: R,
    j: R,
    k: R,
    l: R,
    m: R,
    n: R,
    o: R,
    body: String,
) -> String {
    let all = [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o];
    format!("{}{body}", all.len())
}

#[rate_limit]
#[get("/patterns/{org}/{id}")]
async fn patterns(
    path: web::Path<(String, u64)>,
    web::Query(Page { number }): web::Query<Page>,
    mut page: web::Query<Page>,
    _: HttpRequest,
) -> String {
    let (org, id) = path.into_inner();
    page.number += number;
    format!("{org}{id}{}", page.number)
}

#[rate_limit]
#[get("/conditional")]
async fn conditional(
    #[cfg(not(any()))] request: HttpRequest,
    _: web::Query<Page>,
    #[allow(unused_variables)]
    #[cfg(not(any()))]
    id: Option<web::Path<u64>>,
) -> String {
    request.path().to_owned()
}

#[rate_limit]
#[get("/left-out")]
async fn left_out(request: HttpRequest, #[cfg(any())] never: DoesNotExist) -> String {
    #[cfg(any())]
    drop(never);
    request.path().to_owned()
}

pub fn main() {
    let _ =
        App::new().service(none).service(sixteen).service(patterns).service(conditional).service(left_out);
}
