//! Braces that are doubled, as in a format string.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(key = "user:{{user_id}}")]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
