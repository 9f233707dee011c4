//! A window that could be anything.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(window = "60")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
