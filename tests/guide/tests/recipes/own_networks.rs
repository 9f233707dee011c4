//! Health checks and own networks.

// recipe
use actix_web::get;
use ratelimit_actix::{RateLimitConfig, RateLimitConfigError};

/// No limit applies to clients in these networks, such as monitors and other services.
fn config() -> Result<RateLimitConfig, RateLimitConfigError> {
    RateLimitConfig::builder().exempt(["10.0.0.0/8", "2001:db8:7::/48"]).build()
}

/// A handler without the attribute has no limit. Under middleware: `.exclude_pattern("/health")`.
#[get("/health")]
async fn health() -> &'static str {
    "ok"
}
// end

#[ratelimit_actix::rate_limit(max = 1, window = "1m")]
#[get("/")]
async fn index() -> &'static str {
    "ok"
}

fn services(app: &mut actix_web::web::ServiceConfig) {
    app.service(health).service(index);
}

#[actix_web::test]
async fn monitors_and_health_checks_are_not_counted() {
    let app = actix_web::App::new().app_data(tests::store::fresh()).app_data(config().unwrap());
    let app = actix_web::test::init_service(app.configure(services)).await;
    let mut statuses = Vec::new();
    for (peer, path) in [("10.1.2.3:1", "/"), ("192.0.2.1:1", "/"), ("192.0.2.1:1", "/health")].repeat(2) {
        statuses.push(tests::send(&app, tests::answer::by(peer, path)).await.status);
    }
    assert_eq!(statuses, [200, 200, 200, 200, 429, 200]);
}
