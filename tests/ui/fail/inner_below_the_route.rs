//! The function itself from below the route attribute, where it would be out of reach.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[get("/user")]
#[rate_limit(max = 10, inner = user_body)]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
