//! Units from small to large.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(window = "30m1h")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
