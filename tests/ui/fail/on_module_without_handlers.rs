//! A module in which nothing would be limited.

use ratelimit_actix::rate_limit;

#[rate_limit(max = 10)]
mod api {
    pub async fn user() -> &'static str {
        "ok"
    }
}

fn main() {}
