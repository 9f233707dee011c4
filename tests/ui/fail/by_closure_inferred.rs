//! A parameter that leaves out a type.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(by = |id: web::Path<_>| *id)]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
