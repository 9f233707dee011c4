//! No time at all.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(window = "0s")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
