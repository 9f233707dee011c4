//! A lease without a unit.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 10, lease = 100)]
#[get("/")]
async fn handler() -> &'static str {
    "ok"
}

fn main() {}
