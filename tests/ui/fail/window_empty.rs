//! A window without text.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(window = "")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
