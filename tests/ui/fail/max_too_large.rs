//! Above the bound.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 1_000_000_000_001)]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
