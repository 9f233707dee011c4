//! A function without `with`.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(skip = is_internal)]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
