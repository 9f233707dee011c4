//! A closure over an extractor that reads the body.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(by = |body: String| 1)]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
