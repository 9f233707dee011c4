//! Callers with API keys: only a verified key is a caller.

// recipe
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::{Error, HttpMessage, middleware::Next};
use ratelimit_actix::Principal;

/// Middleware: `App::new().wrap(from_fn(authenticate))`. Limits then say `by = caller::principal_or_ip`.
async fn authenticate(
    req: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    if let Some(account) = req.headers().get("x-api-key").and_then(verified_account) {
        req.extensions_mut().insert(Principal::new(account));
    }
    next.call(req).await
}
// end

fn verified_account(key: &actix_web::http::header::HeaderValue) -> Option<u64> {
    [("alice-key", 1), ("alice-second-key", 1), ("bob-key", 2)]
        .iter()
        .find(|(known, _)| key == known)
        .map(|(_, id)| *id)
}

#[ratelimit_actix::rate_limit(max = 2, window = "1m", by = ratelimit_actix::caller::principal_or_ip)]
#[actix_web::get("/")]
async fn index() -> &'static str {
    "ok"
}

#[actix_web::test]
async fn both_keys_of_an_account_share_a_count_and_invented_keys_count_by_address() {
    crate::on_both_stores(async |limiter| {
        let app = actix_web::App::new().app_data(limiter).service(index);
        let app = actix_web::test::init_service(app.wrap(actix_web::middleware::from_fn(authenticate))).await;
        let mut statuses = Vec::new();
        for key in [
            "alice-key",
            "alice-second-key",
            "alice-key",
            "bob-key",
            "invented-1",
            "invented-2",
            "invented-3",
        ] {
            let request = tests::answer::get("/").insert_header(("x-api-key", key));
            statuses.push(tests::send(&app, request).await.status);
        }
        assert_eq!(statuses, [200, 200, 429, 200, 200, 200, 429]);
    })
    .await;
}
