//! A value without quotes.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(on_missing = skip)]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
