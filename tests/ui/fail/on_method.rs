//! A method.

use ratelimit_actix::rate_limit;

struct Api;

impl Api {
    #[rate_limit(max = 10)]
    async fn user(&self) -> &'static str {
        "ok"
    }
}

fn main() {}
