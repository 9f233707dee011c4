//! A key with a blank.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(key = "user api")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
