//! A burst of something that has none.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 10, burst = 20)]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
