//! An argument without a value.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max, window =)]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
