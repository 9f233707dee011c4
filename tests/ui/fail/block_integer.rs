//! A block without a unit.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 5, block = 600)]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
