//! A window with a blank.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(window = "60 s")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
