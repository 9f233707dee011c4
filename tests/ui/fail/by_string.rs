//! A caller in quotes.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(by = "ip")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
