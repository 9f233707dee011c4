//! A placeholder that is like no parameter of the route.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(key = "{org}")]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
