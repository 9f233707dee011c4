//! Numbers of each request, by code that returns something else.

use actix_web::{HttpRequest, get};
use ratelimit_actix::rate_limit;

#[rate_limit(max = |_: &HttpRequest| "100", window = "60s")]
#[get("/max")]
async fn max() -> &'static str {
    "ok"
}

#[rate_limit(max = with(text_of), window = "60s")]
#[get("/max-of-function")]
async fn max_of_function() -> &'static str {
    "ok"
}

#[rate_limit(max = 100, window = "60s", cost = |_: &HttpRequest| 1.5)]
#[get("/cost")]
async fn cost() -> &'static str {
    "ok"
}

fn text_of(_: &HttpRequest) -> String {
    String::new()
}

fn main() {}
