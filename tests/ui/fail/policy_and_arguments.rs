//! Arguments that the policy has.

use std::time::Duration;

use actix_web::get;
use ratelimit_actix::{Policy, rate_limit};

static SEARCH: Policy = Policy::new("search", 10, Duration::from_secs(60));

#[rate_limit(policy = SEARCH, max = 20, window = "1h", by = ip, name = "find")]
#[get("/search")]
async fn search() -> &'static str {
    "ok"
}

fn main() {}
