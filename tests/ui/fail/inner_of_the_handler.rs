//! The handler's own name.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(inner = user)]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
