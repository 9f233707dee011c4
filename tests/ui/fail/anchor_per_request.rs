//! A day of each request, beside a window of one length.

use actix_web::{HttpRequest, get};
use ratelimit_actix::rate_limit;

#[rate_limit(max = 100, window = "1d", anchor = |req: &HttpRequest| billing_day(req))]
#[get("/")]
async fn handler() -> &'static str {
    "ok"
}

fn billing_day(_: &HttpRequest) -> u8 {
    15
}

fn main() {}
