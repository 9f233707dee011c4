//! A header without a name.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(key = "{header}")]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
