//! A name for two algorithms.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(algorithm = "sliding_window")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
