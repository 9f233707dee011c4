//! The name of a plan instead of code that finds it.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(plan = "pro")]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
