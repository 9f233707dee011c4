//! A path instead of a name.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(inner = self::user_body)]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
