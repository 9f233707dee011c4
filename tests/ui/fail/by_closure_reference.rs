//! The request by reference next to an extractor.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(by = |id: web::Path<u64>, req: &HttpRequest| *id)]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
