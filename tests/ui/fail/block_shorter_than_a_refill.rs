//! A block that ends before the bucket is full again.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 1, window = "1s", algorithm = "token_bucket", burst = 20, block = "10s")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
