//! A cost by the body.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(cost = |body: web::Json<u8>| 1)]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
