//! An empty tuple names no caller.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(by = ())]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
