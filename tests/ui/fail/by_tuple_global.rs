//! `global` beside another part of a tuple.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(by = (ip, global))]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
