//! The function itself of a whole module.

use ratelimit_actix::rate_limit;

#[rate_limit(max = 10, inner = user_body)]
mod api {
    #[actix_web::get("/user")]
    async fn user() -> &'static str {
        "ok"
    }
}

fn main() {}
