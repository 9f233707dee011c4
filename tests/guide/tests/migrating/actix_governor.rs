//! From actix-governor: one limit for a whole app, with a period for each request and a burst.

mod theirs {
    use actix_governor::{Governor, GovernorConfigBuilder};
    use actix_web::web;

    /// A burst of 5, then one request in 2 s, over all routes together.
    pub(super) fn services(app: &mut web::ServiceConfig) {
        let config = GovernorConfigBuilder::default().seconds_per_request(2).burst_size(5).finish();
        let config = config.expect("neither number is zero");
        app.service(
            web::scope("")
                .wrap(Governor::new(&config))
                .route("/", web::get().to(index))
                .route("/about", web::get().to(about)),
        );
    }

    async fn index() -> &'static str {
        "hello"
    }

    async fn about() -> &'static str {
        "about"
    }
}

mod ours {
    // ours
    use std::time::Duration;

    use actix_web::web;
    use ratelimit_actix::{Algorithm, Policy, RateLimitMiddleware};

    static APP: Policy = Policy::builder("app")
        .max(1)
        .window(Duration::from_secs(2))
        .algorithm(Algorithm::TokenBucket)
        .burst(5)
        .build();

    /// A burst of 5, then one request in 2 s, over all routes together.
    pub(super) fn services(app: &mut web::ServiceConfig) {
        app.service(
            web::scope("")
                .wrap(RateLimitMiddleware::new(&APP))
                .route("/", web::get().to(index))
                .route("/about", web::get().to(about)),
        );
    }
    // end

    async fn index() -> &'static str {
        "hello"
    }

    async fn about() -> &'static str {
        "about"
    }
}

mod handler {
    use actix_web::get;
    use ratelimit_actix::rate_limit;

    /// The same for this route alone.
    #[rate_limit(max = 1, window = "2s", algorithm = "token_bucket", burst = 5)]
    #[get("/")]
    pub(super) async fn index() -> &'static str {
        "hello"
    }
}

#[actix_web::test]
async fn both_admit_the_same_burst_over_all_routes() {
    let theirs = actix_web::test::init_service(actix_web::App::new().configure(theirs::services)).await;
    assert_eq!(super::passing(&theirs, "/").await, 5);
    assert_eq!(super::passing(&theirs, "/about").await, 0);
    let ours = actix_web::App::new().app_data(tests::store::fresh()).configure(ours::services);
    let ours = actix_web::test::init_service(ours).await;
    assert_eq!(super::passing(&ours, "/").await, 5);
    assert_eq!(super::passing(&ours, "/about").await, 0);
}

#[actix_web::test]
async fn an_attribute_limits_one_route() {
    let app = actix_web::App::new().app_data(tests::store::fresh()).service(handler::index);
    assert_eq!(super::passing(&actix_web::test::init_service(app).await, "/").await, 5);
}
