//! From actix-governor: a period for each request and a burst.

mod theirs {
    // theirs
    use actix_governor::{Governor, GovernorConfigBuilder};
    use actix_web::web;

    /// A burst of 5, then one request in 2 s. Register it with `App::configure`.
    pub(super) fn services(app: &mut web::ServiceConfig) {
        let config = GovernorConfigBuilder::default().seconds_per_request(2).burst_size(5).finish();
        let config = config.expect("neither number is zero");
        app.service(web::scope("").wrap(Governor::new(&config)).route("/", web::get().to(index)));
    }

    async fn index() -> &'static str {
        "hello"
    }
    // end
}

mod ours {
    // ours
    use actix_web::{get, web};
    use ratelimit_actix::rate_limit;

    /// A burst of 5, then one request in 2 s. Register it with `App::configure`.
    pub(super) fn services(app: &mut web::ServiceConfig) {
        app.service(index);
    }

    #[rate_limit(max = 1, window = "2s", algorithm = "token_bucket", burst = 5)]
    #[get("/")]
    async fn index() -> &'static str {
        "hello"
    }
    // end
}

#[actix_web::test]
async fn both_admit_the_same_burst() {
    let theirs = actix_web::test::init_service(actix_web::App::new().configure(theirs::services)).await;
    assert_eq!(super::passing(&theirs).await, 5);
    let ours = actix_web::App::new().app_data(tests::store::fresh()).configure(ours::services);
    assert_eq!(super::passing(&actix_web::test::init_service(ours).await).await, 5);
}
