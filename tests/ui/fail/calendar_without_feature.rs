//! A calendar window without the feature, which this package does not have.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 100, window = "month")]
#[get("/")]
async fn handler() -> &'static str {
    "ok"
}

fn main() {}
