//! Placeholders and `by`.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(key = "user:{user_id}", by = ip)]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
