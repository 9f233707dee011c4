//! A window of a concurrency limit.

use actix_web::post;
use ratelimit_actix::concurrency_limit;

#[concurrency_limit(max = 3, window = "1m")]
#[post("/chat")]
async fn chat() -> &'static str {
    "ok"
}

fn main() {}
