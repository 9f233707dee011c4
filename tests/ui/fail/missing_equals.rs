//! An argument like a call.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max(10))]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
