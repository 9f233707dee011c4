//! An impl block in which nothing would be limited.

use ratelimit_actix::rate_limit;

struct Api;

#[rate_limit(max = 10)]
impl Api {
    async fn user(&self) -> &'static str {
        "ok"
    }
}

fn main() {}
