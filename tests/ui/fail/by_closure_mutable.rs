//! A closure that wants to change the request.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(by = |req: &mut HttpRequest| 1)]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
