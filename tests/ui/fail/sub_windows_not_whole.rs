//! A window that cannot be divided so.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(window = "1s", sub_windows = 7)]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
