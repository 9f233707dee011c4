//! A handler's own limit under a condition, inside a limited module.

use ratelimit_actix::rate_limit;

#[rate_limit(max = 10)]
mod api {
    use actix_web::get;

    #[get("/one")]
    #[cfg_attr(all(), rate_limit(max = 1))]
    async fn one() -> &'static str {
        "ok"
    }
}

fn main() {}
