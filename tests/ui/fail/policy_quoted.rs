//! The policy in quotes.

use std::time::Duration;

use actix_web::get;
use ratelimit_actix::{Policy, rate_limit};

static SEARCH: Policy = Policy::new("search", 10, Duration::from_secs(60));

#[rate_limit(policy = "SEARCH")]
#[get("/search")]
async fn search() -> &'static str {
    "ok"
}

fn main() {}
