//! A module.

use ratelimit_actix::rate_limit;

#[rate_limit(max = 10)]
mod api {}

fn main() {}
