//! A unit that does not exist.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(window = "60x")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
