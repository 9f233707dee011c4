//! A misspelled call.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(by = headr("x-api-key"))]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
