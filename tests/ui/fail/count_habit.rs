//! Another word for it.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(count = "errors")]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
