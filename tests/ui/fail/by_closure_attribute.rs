//! A closure whose parameter is under a condition.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(by = |#[cfg(test)] req: &HttpRequest| 1)]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
