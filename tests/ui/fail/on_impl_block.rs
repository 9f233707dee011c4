//! An impl block.

use ratelimit_actix::rate_limit;

struct Api;

#[rate_limit(max = 10)]
impl Api {}

fn main() {}
