//! A closure that returns no name.

use actix_web::{HttpRequest, get};
use ratelimit_actix::rate_limit;

#[rate_limit(plan = |_: &HttpRequest| 7)]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
