//! An argument that is nearly one we know.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 10, windw = "60s")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
