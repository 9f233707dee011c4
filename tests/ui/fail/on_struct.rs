//! A struct.

use ratelimit_actix::rate_limit;

#[rate_limit(max = 10)]
struct User;

fn main() {}
