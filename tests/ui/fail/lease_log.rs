//! A lease on a log.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 10, algorithm = "sliding_window_log", lease = "100ms")]
#[get("/")]
async fn handler() -> &'static str {
    "ok"
}

fn main() {}
