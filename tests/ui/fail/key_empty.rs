//! A key without text.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(key = "")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
