//! A closure whose parameter has no type.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(by = |req| req.path())]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
