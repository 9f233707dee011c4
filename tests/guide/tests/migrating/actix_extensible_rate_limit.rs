//! From actix-extensible-rate-limit: a backend, and a function that describes the limit.

mod theirs {
    // theirs
    use std::time::Duration;

    use actix_extensible_rate_limit::RateLimiter;
    use actix_extensible_rate_limit::backend::SimpleInputFunctionBuilder;
    use actix_extensible_rate_limit::backend::memory::InMemoryBackend;
    use actix_web::web;

    /// 5 requests per minute. Clone one backend for all workers.
    pub(super) fn services(app: &mut web::ServiceConfig, backend: &InMemoryBackend) {
        let input = SimpleInputFunctionBuilder::new(Duration::from_secs(60), 5).peer_ip_key().build();
        let limit = RateLimiter::builder(backend.clone(), input).add_headers().build();
        app.service(web::scope("").wrap(limit).route("/", web::get().to(index)));
    }

    async fn index() -> &'static str {
        "hello"
    }
    // end
}

mod ours {
    // ours
    use std::time::Duration;

    use actix_web::web;
    use ratelimit_actix::{Algorithm, Policy, RateLimitMiddleware};

    static API: Policy = Policy::builder("api")
        .max(5)
        .window(Duration::from_secs(60))
        .algorithm(Algorithm::FixedWindow)
        .build();

    /// 5 requests per minute. Clone one `RateLimiter` for all workers, in `app_data`.
    pub(super) fn services(app: &mut web::ServiceConfig) {
        let limit = RateLimitMiddleware::new(&API);
        app.service(web::scope("").wrap(limit).route("/", web::get().to(index)));
    }

    async fn index() -> &'static str {
        "hello"
    }
    // end
}

#[actix_web::test]
async fn both_admit_five() {
    use actix_extensible_rate_limit::backend::memory::InMemoryBackend;
    let backend = InMemoryBackend::builder().with_gc_interval(None).build();
    let theirs = actix_web::App::new().configure(|app| theirs::services(app, &backend));
    assert_eq!(super::passing(&actix_web::test::init_service(theirs).await).await, 5);
    let ours = actix_web::App::new().app_data(tests::store::fresh()).configure(ours::services);
    assert_eq!(super::passing(&actix_web::test::init_service(ours).await).await, 5);
}
