//! An exemption from nothing.

use actix_web::get;
use ratelimit_actix::no_rate_limit;

#[no_rate_limit]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
