//! A lease longer than 10 s.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 10, lease = "11s")]
#[get("/")]
async fn handler() -> &'static str {
    "ok"
}

fn main() {}
