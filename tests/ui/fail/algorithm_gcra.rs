//! Another name of the token bucket.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(algorithm = "gcra")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
