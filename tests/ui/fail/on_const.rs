//! A constant.

use ratelimit_actix::rate_limit;

#[rate_limit(max = 10)]
const USER: u64 = 1;

fn main() {}
