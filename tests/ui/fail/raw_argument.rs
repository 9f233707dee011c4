//! An argument as a raw identifier.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(r#max = 10)]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
