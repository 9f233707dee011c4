//! A lease of nothing.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 10, lease = "0ms")]
#[get("/")]
async fn handler() -> &'static str {
    "ok"
}

fn main() {}
