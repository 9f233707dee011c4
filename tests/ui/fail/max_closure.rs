//! A closure instead of a constant.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = |_| 10)]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
