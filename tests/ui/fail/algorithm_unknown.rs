//! An algorithm that is nearly one we know.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(algorithm = "token_buket")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
