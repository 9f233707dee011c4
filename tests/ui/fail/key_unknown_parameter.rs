//! A placeholder that is no parameter of the route.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(key = "user:{usr_id}")]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
