//! `with` where a path stands for itself.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(by = with(caller))]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
