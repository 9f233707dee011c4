//! A source of placeholders that does not exist.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(key = "{headr:x-api-key}")]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
