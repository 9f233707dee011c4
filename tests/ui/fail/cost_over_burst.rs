//! A call that never fits into the bucket.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(algorithm = "token_bucket", max = 10, burst = 5, cost = 6)]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
