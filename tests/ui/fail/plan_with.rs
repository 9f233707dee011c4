//! A function in `with`.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(plan = with(plan_of))]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
