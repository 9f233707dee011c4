//! An attribute that another one removes is looked up like any other.

use ratelimit_actix::rate_limit;

#[rate_limit(max = 10)]
#[concurrency_limit(max = 3)]
async fn user() -> String {
    String::new()
}

fn main() {}
