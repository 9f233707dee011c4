//! A mode with another name.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 5, mode = "dry_run")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
