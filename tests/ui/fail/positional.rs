//! Values without names.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(10, "60s")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
