//! Mistakes in a module's limits and in its handlers, each said once.

use ratelimit_actix::rate_limit;

#[rate_limit(max = 0)]
mod api {
    use actix_web::get;

    #[get("/one")]
    async fn one() -> &'static str {
        "ok"
    }

    #[get("/two")]
    #[rate_limit(windw = "60s")]
    async fn two() -> &'static str {
        "ok"
    }

    #[get("/three")]
    #[no_rate_limit]
    async fn three() -> &'static str {
        "ok"
    }
}

fn main() {}
