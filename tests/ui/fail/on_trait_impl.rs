//! The functions of a trait, which cannot change.

use ratelimit_actix::rate_limit;

struct Api;

trait Handlers {
    async fn user() -> &'static str;
}

#[rate_limit(max = 10)]
impl Handlers for Api {
    async fn user() -> &'static str {
        "ok"
    }
}

fn main() {}
