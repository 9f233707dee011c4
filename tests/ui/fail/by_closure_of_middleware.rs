//! A closure over what only middleware has.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(by = |req: &ServiceRequest| req.path().len())]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
