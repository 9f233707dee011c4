//! Longer than a year.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(window = "400d")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
