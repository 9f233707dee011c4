//! A time zone beside a window of one length.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 100, window = "1d", zone = "Europe/Berlin")]
#[get("/")]
async fn handler() -> &'static str {
    "ok"
}

fn main() {}
