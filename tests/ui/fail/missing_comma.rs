//! Two arguments without a comma.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 10 window = "60s")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
