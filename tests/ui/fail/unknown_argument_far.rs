//! An argument that is like none we know.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 10, colour = "red")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
