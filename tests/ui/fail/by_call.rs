//! A call instead of a function.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(by = header("x-api-key"))]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
