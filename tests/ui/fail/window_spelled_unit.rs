//! A unit in full.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(window = "60sec")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
