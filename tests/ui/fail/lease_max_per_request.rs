//! A lease under a limit that is chosen per request.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = |req: &actix_web::HttpRequest| req.path().len() as u64, lease = "100ms")]
#[get("/")]
async fn handler() -> &'static str {
    "ok"
}

fn main() {}
