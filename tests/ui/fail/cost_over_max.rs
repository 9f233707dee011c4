//! A call that can never pass.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 10, cost = 11)]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
