//! Arguments in any order, with and without a trailing comma.

use actix_web::{HttpRequest, get};
use ratelimit_actix::rate_limit;

fn tenant(request: &HttpRequest) -> String {
    request.path().to_owned()
}

#[rate_limit(
    max = 10,
    window = "60s",
    key = "user-api",
    name = "per-minute",
    by = ip,
    algorithm = "sliding_window_counter",
    sub_windows = 6,
    cost = 2,
    lease = "100ms",
    crate = ::ratelimit_actix,
)]
#[get("/counter")]
async fn counter() -> &'static str {
    "ok"
}

#[rate_limit(cost = 30, burst = 50, algorithm = "token_bucket", window = "1h30m", by = tenant, max = 1_000)]
#[get("/bucket")]
async fn bucket() -> &'static str {
    "ok"
}

#[rate_limit(algorithm = "fixed_window", window = "1d", max = 0x10, by = global, mode = "enforce", block = "366d")]
#[get("/fixed")]
async fn fixed() -> &'static str {
    "ok"
}

#[rate_limit(
    algorithm = "sliding_window_log",
    window = "500ms",
    max = 5u64,
    block = "1s500ms",
    mode = "shadow"
)]
#[get("/log")]
async fn log() -> &'static str {
    "ok"
}

#[rate_limit(on_error = "local", on_missing = "reject", count = "all", window = "5m")]
#[rate_limit(on_error = "deny", on_missing = "skip", count = "failures", window = "1h", by = tenant)]
#[rate_limit(
    on_error = "allow",
    on_missing = "anonymous",
    count = "successes",
    window = "366d",
    key = "{ip}"
)]
#[get("/words")]
async fn words() -> &'static str {
    "ok"
}

pub fn main() {
    let _ = actix_web::App::new().service(counter).service(bucket).service(fixed).service(log).service(words);
}
