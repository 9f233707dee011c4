//! A template, which does not exist yet.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(key = "user:{user_id}")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
