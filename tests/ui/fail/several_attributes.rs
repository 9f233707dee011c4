//! A mistake in a further attribute on the handler, also below a route attribute.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = 0)]
#[get("/user")]
#[rate_limit(max = 10, window = "60")]
async fn user() -> &'static str {
    "ok"
}

fn register() {
    // The handler is still there, so this is no further mistake.
    let _ = actix_web::App::new().service(user);
}

fn main() {}
