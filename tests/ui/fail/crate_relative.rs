//! A facade that is not named from a root.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(crate = facade)]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
