//! From actix-extensible-rate-limit: a backend, and a function that describes the limit.

mod theirs {
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

    /// 5 requests per minute.
    pub(super) fn services(app: &mut web::ServiceConfig) {
        let limit = RateLimitMiddleware::new(&API);
        app.service(web::scope("").wrap(limit).route("/", web::get().to(index)));
    }
    // end

    async fn index() -> &'static str {
        "hello"
    }
}

#[actix_web::test]
async fn both_admit_five() {
    use actix_extensible_rate_limit::backend::memory::InMemoryBackend;
    let backend = InMemoryBackend::builder().with_gc_interval(None).build();
    let theirs = actix_web::App::new().configure(|app| theirs::services(app, &backend));
    assert_eq!(super::passing(&actix_web::test::init_service(theirs).await, "/").await, 5);
    let ours = actix_web::App::new().app_data(tests::store::fresh()).configure(ours::services);
    assert_eq!(super::passing(&actix_web::test::init_service(ours).await, "/").await, 5);
}

/// `rollback_server_errors` gives back what answers from 500 on took, and nothing else.
#[actix_web::test]
async fn both_count_what_is_no_server_error() {
    use actix_extensible_rate_limit::RateLimiter;
    use actix_extensible_rate_limit::backend::SimpleInputFunctionBuilder;
    use actix_extensible_rate_limit::backend::memory::InMemoryBackend;
    use actix_web::http::StatusCode;
    use actix_web::{App, HttpResponse, get, test::init_service, web};

    async fn answer(status: web::Path<u16>) -> HttpResponse {
        HttpResponse::build(StatusCode::from_u16(*status).unwrap()).finish()
    }

    #[ratelimit_actix::rate_limit(
        max = 3,
        window = "1m",
        algorithm = "fixed_window",
        count = |status: StatusCode| !status.is_server_error()
    )]
    #[get("/{status}")]
    async fn limited(status: web::Path<u16>) -> HttpResponse {
        answer(status).await
    }

    let requests = ["/500", "/503", "/404", "/500", "/200", "/301", "/500", "/200"];
    let expected = [500, 503, 404, 500, 200, 301, 429, 429];
    let backend = InMemoryBackend::builder().with_gc_interval(None).build();
    let input = SimpleInputFunctionBuilder::new(std::time::Duration::from_secs(60), 3).peer_ip_key().build();
    let theirs = RateLimiter::builder(backend, input).rollback_server_errors().build();
    let theirs = App::new().service(web::scope("").wrap(theirs).route("/{status}", web::get().to(answer)));
    let theirs = init_service(theirs).await;
    let ours = tests::service!(tests::store::fresh(), limited);
    for (path, expected) in requests.into_iter().zip(expected) {
        assert_eq!(tests::send(&theirs, tests::answer::get(path)).await.status, expected, "theirs, {path}");
        assert_eq!(tests::send(&ours, tests::answer::get(path)).await.status, expected, "ours, {path}");
    }
}
