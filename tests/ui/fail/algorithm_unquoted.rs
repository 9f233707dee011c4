//! An algorithm without quotes.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(algorithm = token_bucket)]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
