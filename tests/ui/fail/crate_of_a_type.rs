//! The facade with a type argument.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(crate = ::facade::<u8>)]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
