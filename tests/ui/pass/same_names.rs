//! Parameters of closures that are called like handlers, of which Actix-web makes unit structs.

use actix_web::{App, HttpRequest, get, post, web};
use ratelimit_actix::rate_limit;
use serde::Deserialize;

#[derive(Deserialize)]
struct Page {
    number: u64,
}

#[rate_limit(by = |user: web::Path<u64>| *user)]
#[get("/user/{user}")]
async fn user(user: web::Path<u64>) -> String {
    user.to_string()
}

#[rate_limit(
    by = |web::Query(Page { number: page }): web::Query<Page>, user: web::Path<u64>| (page, *user),
    max = |request: &HttpRequest| request.path().len() as u64,
    cost = async |number: HttpRequest| number.path().len() as u64,
    skip = move |request: HttpRequest| request.match_info().is_empty() || request.path() == number()
)]
#[post("/page/{user}")]
async fn page() -> &'static str {
    "ok"
}

#[get("/request")]
#[rate_limit(by = (ip, |request: &HttpRequest| -> String { request.path().to_owned() }))]
async fn request() -> &'static str {
    "ok"
}

#[rate_limit(inner = itself_directly, by = |itself: HttpRequest| itself.path().len())]
#[get("/itself")]
async fn itself() -> &'static str {
    "ok"
}

fn number() -> &'static str {
    "/"
}

pub fn main() {
    let _ = App::new().service(user).service(page).service(request).service(itself);
    drop(itself_directly());
}
