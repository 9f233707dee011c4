//! All mistakes of an attribute and its function are reported at once.

use ratelimit_actix::rate_limit;

#[rate_limit(max = 0, window = "60x", algorithm = "sliding_windw", key = "", per = 3)]
fn user(_argument: impl Into<String>) -> &'static str {
    "ok"
}

fn main() {}
