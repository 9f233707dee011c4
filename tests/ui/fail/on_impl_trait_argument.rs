//! An argument without a name for its type.

use ratelimit_actix::rate_limit;

#[rate_limit(max = 10)]
async fn user(argument: impl Into<String>) -> String {
    argument.into()
}

fn main() {}
