//! A shadow limit with the count of an enforced one.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 50, key = "api")]
#[rate_limit(max = 10, key = "api", mode = "shadow")]
#[get("/user")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
