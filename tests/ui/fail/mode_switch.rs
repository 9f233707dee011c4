//! A mode as a switch.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 5, shadow = true)]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
