//! One policy twice on a handler.

use actix_web::get;
use ratelimit_actix::core::Policy;
use ratelimit_actix::rate_limit;

static SEARCH: Policy = Policy::builder("search").max(20).build();

#[rate_limit(policy = SEARCH)]
#[rate_limit(policy = SEARCH, cost = 2)]
#[get("/search")]
async fn search() -> &'static str {
    "ok"
}

fn main() {}
