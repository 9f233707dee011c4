//! A fraction of a request.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 1.5)]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
