//! A block that ends before the window, which has its default.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 5, block = "30s")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
