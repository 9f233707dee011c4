//! A number in quotes that is a word.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = "ten")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
