//! `Self` in a closure.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = |req: &HttpRequest| Self::MAX)]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
