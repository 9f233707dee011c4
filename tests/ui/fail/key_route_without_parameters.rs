//! A placeholder, and a route that has no parameters.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(key = "{id}")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
