//! A lease of a log, whose units cannot be held.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(algorithm = "sliding_window_log", lease = "100ms")]
#[get("/")]
async fn handler() -> &'static str {
    "ok"
}

fn main() {}
