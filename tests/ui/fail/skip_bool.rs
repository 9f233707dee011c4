//! A constant.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(skip = true)]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
