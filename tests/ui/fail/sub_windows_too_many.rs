//! Above the bound.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(sub_windows = 61)]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
