//! From actix-limitation: one limiter in Redis, and a function that names the caller.

#[allow(dead_code, reason = "needs a server, and is only compiled")]
mod theirs {
    use std::time::Duration;

    use actix_limitation::{Limiter, RateLimiter};
    use actix_web::dev::ServiceRequest;
    use actix_web::web;

    fn limiter() -> Result<Limiter, actix_limitation::Error> {
        Limiter::builder("redis://127.0.0.1")
            .key_by(|req: &ServiceRequest| Some(req.headers().get("x-account")?.to_str().ok()?.to_owned()))
            .limit(5000)
            .period(Duration::from_secs(3600))
            .build()
    }

    /// Also needs `App::app_data(web::Data::new(limiter()?))`: without it, the first request panics.
    fn services(app: &mut web::ServiceConfig) {
        app.service(web::scope("").wrap(RateLimiter::default()).route("/", web::get().to(index)));
    }

    async fn index() -> &'static str {
        "hello"
    }
}

mod ours {
    // ours
    use actix_web::{get, web};
    use ratelimit_actix::{RateLimiter, RedisConfigError, rate_limit};

    pub(super) fn limiter() -> Result<RateLimiter, RedisConfigError> {
        RateLimiter::redis("redis://127.0.0.1")
    }

    /// Needs `App::app_data(web::Data::new(limiter()?))`: without it, the process counts, and logs that.
    pub(super) fn services(app: &mut web::ServiceConfig) {
        app.service(index);
    }

    #[rate_limit(max = 5000, window = "1h", algorithm = "fixed_window", by = header("x-account"), on_missing = "skip")]
    #[get("/")]
    async fn index() -> &'static str {
        "hello"
    }
    // end
}

#[actix_web::test]
async fn a_request_without_an_account_is_not_counted() {
    // Only compiled: it would look for a server.
    let _ = ours::limiter;
    let app = actix_web::App::new().app_data(tests::store::fresh()).configure(ours::services);
    let app = actix_web::test::init_service(app).await;
    assert_eq!(tests::send(&app, tests::answer::get("/")).await.quota(), None);
    let counted = tests::send(&app, tests::answer::get("/").insert_header(("x-account", "7"))).await;
    assert_eq!(counted.quota().unwrap().1, 4_999);
}
