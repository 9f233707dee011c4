//! A placeholder that one of several routes lacks.

use actix_web::routes;
use ratelimit_actix::rate_limit;

#[rate_limit(key = "user:{id}")]
#[routes]
#[get("/user/{id}")]
#[get("/me")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
