//! A parameter that is nearly one of the route's.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(by = path("usr_id"))]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
