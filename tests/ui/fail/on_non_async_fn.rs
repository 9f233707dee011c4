//! A function that is not async.

use ratelimit_actix::rate_limit;

#[rate_limit(max = 10)]
fn user() -> &'static str {
    "ok"
}

fn main() {}
