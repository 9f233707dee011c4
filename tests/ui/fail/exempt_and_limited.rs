//! An exemption of a handler that is limited itself.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 10)]
#[ratelimit_actix::no_rate_limit]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
