//! A burst for each request.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(algorithm = "token_bucket", burst = |req: &HttpRequest| 10)]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
