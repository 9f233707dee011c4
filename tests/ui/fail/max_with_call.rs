//! A function that is called.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = with(plan()))]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
