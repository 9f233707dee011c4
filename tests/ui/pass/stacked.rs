//! Several limits on one handler are one group.

use actix_web::{App, get};
use ratelimit_actix::rate_limit;

#[rate_limit(max = 10, window = "1s")]
#[rate_limit(max = 100, window = "1h", name = "hourly")]
#[ratelimit_actix::rate_limit(max = 1_000, window = "1d", by = global, algorithm = "fixed_window")]
#[get("/three")]
async fn three() -> &'static str {
    "ok"
}

#[get("/two")]
#[rate_limit(max = 10, window = "1s", algorithm = "token_bucket", burst = 30)]
#[cfg_attr(all(), rate_limit)]
async fn two() -> &'static str {
    "ok"
}

pub fn main() {
    let _ = App::new().service(three).service(two);
}
