//! Longer than any number holds.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(window = "99999999999999999999d")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
