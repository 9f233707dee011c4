//! A misspelled word.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(by = ipp)]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
