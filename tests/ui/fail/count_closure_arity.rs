//! A closure over more than the status.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(count = |status, request| true)]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
