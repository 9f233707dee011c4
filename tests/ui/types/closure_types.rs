//! Closures over what no request has.

use actix_web::get;
use ratelimit_actix::rate_limit;

struct User {
    id: u64,
}

#[rate_limit(by = |user: User| user.id)]
#[get("/value")]
async fn by_value() -> &'static str {
    "ok"
}

#[rate_limit(by = |user: &User| user.id)]
#[get("/reference")]
async fn by_reference() -> &'static str {
    "ok"
}

fn main() {}
