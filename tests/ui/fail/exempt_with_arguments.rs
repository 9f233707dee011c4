//! An exemption with arguments.

use ratelimit_actix::rate_limit;

#[rate_limit(max = 10)]
mod api {
    use actix_web::get;

    #[get("/user")]
    pub async fn user() -> &'static str {
        "ok"
    }

    #[get("/open")]
    #[no_rate_limit(max = 100)]
    pub async fn open() -> &'static str {
        "ok"
    }
}

fn main() {}
