//! A closure in `with`.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(max = with(|req: &HttpRequest| 10))]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
