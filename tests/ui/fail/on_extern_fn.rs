//! A function with a foreign calling convention.

use ratelimit_actix::rate_limit;

#[rate_limit(max = 10)]
async extern "C" fn user() -> &'static str {
    "ok"
}

fn main() {}
