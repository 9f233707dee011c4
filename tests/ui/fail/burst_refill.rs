//! A bucket that takes years to fill.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(algorithm = "token_bucket", max = 1, window = "1d", burst = 1000)]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
