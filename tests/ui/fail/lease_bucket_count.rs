//! A leased bucket of which some responses are refunded.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 10, algorithm = "token_bucket", count = "failures", lease = "100ms")]
#[get("/")]
async fn handler() -> &'static str {
    "ok"
}

fn main() {}
