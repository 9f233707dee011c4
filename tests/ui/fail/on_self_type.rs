//! An associated function that names its type `Self`.

use ratelimit_actix::rate_limit;

struct Api;

impl Api {
    const GREETING: &'static str = "ok";

    #[rate_limit(max = 10)]
    async fn user() -> &'static str {
        Self::GREETING
    }
}

fn main() {}
