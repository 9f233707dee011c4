//! A block that ends before the window.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 5, window = "1h", block = "10m")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
