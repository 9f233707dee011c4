//! Sub-windows of something that has none.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(algorithm = "fixed_window", sub_windows = 6)]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
