//! Token buckets that one limit leases and another does not.

use ratelimit_actix::SharedCountRule;

#[allow(dead_code, reason = "declared, and never mounted")]
mod handlers {
    use actix_web::{HttpRequest, get};
    use ratelimit_actix::rate_limit;

    #[rate_limit(max = 1000, key = "partly-leased", by = global, algorithm = "token_bucket", lease = "100ms")]
    #[get("/leased")]
    pub(super) async fn leased() -> &'static str {
        "ok"
    }

    #[rate_limit(max = 1000, key = "partly-leased", by = global, algorithm = "token_bucket")]
    #[get("/plain")]
    pub(super) async fn plain() -> &'static str {
        "ok"
    }

    /// Another bucket.
    #[rate_limit(max = 2000, key = "partly-leased", by = global, algorithm = "token_bucket")]
    #[get("/larger")]
    pub(super) async fn larger() -> &'static str {
        "ok"
    }

    /// Of which sizes, only requests tell.
    #[rate_limit(max = |_: &HttpRequest| 2000, key = "partly-leased", by = global, algorithm = "token_bucket")]
    #[get("/computed")]
    pub(super) async fn computed() -> &'static str {
        "ok"
    }

    /// Refunds of windows are exact.
    #[rate_limit(max = 1000, key = "partly-leased-window", by = global, lease = "100ms")]
    #[get("/window/leased")]
    pub(super) async fn window_leased() -> &'static str {
        "ok"
    }

    #[rate_limit(max = 1000, key = "partly-leased-window", by = global)]
    #[get("/window/plain")]
    pub(super) async fn window_plain() -> &'static str {
        "ok"
    }
}

#[test]
fn a_bucket_that_one_limit_leases_and_another_does_not_is_an_error_with_both_places() {
    let error = ratelimit_actix::check_declared_limits().unwrap_err();
    let own = error.pairs().iter().filter(|pair| pair.first().module().starts_with(module_path!()));
    let pairs: Vec<_> =
        own.map(|pair| (pair.first().handler(), pair.second().handler(), pair.rule())).collect();
    assert_eq!(pairs, [("leased", "plain", SharedCountRule::LeasedByAll)]);
    let text = error.to_string();
    let line = text.lines().find(|line| line.contains("token bucket")).unwrap();
    let begin = concat!("the limit of `", module_path!(), "::handlers::plain` (");
    assert!(line.starts_with(begin) && line.contains("::handlers::leased` ("), "{line}");
    assert!(line.ends_with("or give one another key than `partly-leased`"), "{line}");
}
