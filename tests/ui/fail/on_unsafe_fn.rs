//! An unsafe function.

use ratelimit_actix::rate_limit;

#[rate_limit(max = 10)]
async unsafe fn user() -> &'static str {
    "ok"
}

fn main() {}
