//! A failure policy under the name that another limiter gives it.

use actix_web::{Responder, get};
use ratelimit_actix::rate_limit;

#[rate_limit(on_error = "fail_open")]
#[get("/")]
async fn user() -> impl Responder {
    "user"
}

fn main() {}
