//! A parameter without quotes.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(by = path(user_id))]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
