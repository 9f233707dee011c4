//! An argument of other limiters that does not exist.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(on_error = "allow")]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
