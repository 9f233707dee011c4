//! Two limits of a handler with one count.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 100, key = "api")]
#[rate_limit(max = 10, key = "api")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
