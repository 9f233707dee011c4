//! The same argument twice.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 10, window = "60s", max = 20)]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
