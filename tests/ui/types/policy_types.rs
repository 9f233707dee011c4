//! Policies that are made when the program runs, or are none.

use std::sync::LazyLock;
use std::time::Duration;

use actix_web::get;
use ratelimit_actix::{Policy, concurrency_limit, rate_limit};

static SEARCH: LazyLock<Policy> = LazyLock::new(|| Policy::new("search", 10, Duration::from_secs(60)));
static UPLOADS: LazyLock<Policy> = LazyLock::new(|| Policy::concurrency("uploads", 3));
const MAX: u64 = 10;

#[rate_limit(policy = SEARCH)]
#[get("/search")]
async fn search() -> &'static str {
    "ok"
}

#[concurrency_limit(policy = UPLOADS)]
#[get("/uploads")]
async fn uploads() -> &'static str {
    "ok"
}

#[rate_limit(policy = MAX)]
#[get("/max")]
async fn max() -> &'static str {
    "ok"
}

fn main() {}
