//! A trait method without a body.

use ratelimit_actix::rate_limit;

trait Api {
    #[rate_limit(max = 10)]
    async fn user() -> &'static str;
}

fn main() {}
