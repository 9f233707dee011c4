//! A block as in other libraries.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 5, blockDuration = 600)]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
