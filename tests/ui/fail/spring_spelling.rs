//! The spelling of the annotation in other frameworks.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(maxRequests = 10, windowSeconds = 60)]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
