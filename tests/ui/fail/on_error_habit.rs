//! What happens while the store cannot answer, in the words of a proxy.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(on_error = "fail_open")]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
