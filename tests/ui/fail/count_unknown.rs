//! A misspelled value.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(count = "failuers")]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
