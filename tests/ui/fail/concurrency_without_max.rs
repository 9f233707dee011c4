//! A concurrency limit without a number.

use actix_web::post;
use ratelimit_actix::concurrency_limit;

#[concurrency_limit]
#[post("/chat")]
async fn chat() -> &'static str {
    "ok"
}

fn main() {}
