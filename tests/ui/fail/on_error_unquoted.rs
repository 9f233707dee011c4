//! What happens while the store cannot answer, without quotes.

use actix_web::get;
use ratelimit_actix::rate_limit;

#[rate_limit(on_error = Deny)]
#[get("/user/{user_id}")]
async fn user() -> &'static str {
    "ok"
}

fn main() {}
