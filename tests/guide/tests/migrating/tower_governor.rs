//! From tower-governor, which is for Axum and Tonic: the numbers of a bucket under the address of a proxy's client.

mod ours {
    // ours
    use actix_web::get;
    use ratelimit_actix::{ForwardedHeader, RateLimitConfig, RateLimitConfigError, rate_limit};

    /// For `App::app_data`. Only these networks may name the client.
    pub(super) fn config() -> Result<RateLimitConfig, RateLimitConfigError> {
        RateLimitConfig::builder().trusted_proxies(["10.0.0.0/8"], ForwardedHeader::XForwardedFor).build()
    }

    #[rate_limit(max = 1, window = "2s", algorithm = "token_bucket", burst = 5)]
    #[get("/")]
    pub(super) async fn index() -> &'static str {
        "hello"
    }
    // end
}

#[actix_web::test]
async fn a_burst_of_five_passes_for_each_client_of_the_proxy() {
    let app = actix_web::App::new().app_data(tests::store::fresh()).app_data(ours::config().unwrap());
    let app = actix_web::test::init_service(app.service(ours::index)).await;
    for client in ["203.0.113.9", "203.0.113.10"] {
        let mut passed = 0;
        for _ in 0..20 {
            let request = tests::answer::by("10.0.0.7:1", "/").insert_header(("x-forwarded-for", client));
            passed += usize::from(tests::send(&app, request).await.status == 200);
        }
        assert_eq!(passed, 5);
    }
}
