//! Wrong keys around an app: only responses with 401 are charged, when they are known.

// recipe
use std::time::Duration;

use ratelimit_actix::{Limit, Policy, RateLimitMiddleware};

static WRONG_KEYS: Policy = Policy::new("wrong-keys", 20, Duration::from_secs(600));

/// Around the authentication: `App::new().wrap(from_fn(authenticate)).wrap(wrong_keys())`.
fn wrong_keys() -> RateLimitMiddleware {
    RateLimitMiddleware::new(Limit::new(&WRONG_KEYS).count(|status| status == 401).charge_after())
}
// end

use actix_web::{App, HttpRequest, HttpResponse, test, web};

async fn index(req: HttpRequest) -> HttpResponse {
    let is_right = req.headers().get("x-api-key").is_some_and(|key| key == "right");
    if is_right { HttpResponse::Ok().finish() } else { HttpResponse::Unauthorized().finish() }
}

#[actix_web::test]
async fn twenty_wrong_keys_of_an_address_deny_its_requests() {
    crate::on_both_stores(async |limiter| {
        let app = App::new().app_data(limiter).wrap(wrong_keys()).route("/", web::get().to(index));
        let app = test::init_service(app).await;
        let status = async |key: &str| {
            tests::send(&app, tests::answer::get("/").insert_header(("x-api-key", key))).await.status
        };
        for guess in 0..20 {
            assert_eq!(status("right").await, 200);
            assert_eq!(status(&format!("guess-{guess}")).await, 401);
        }
        assert_eq!([status("right").await, status("guess").await], [429, 429]);
    })
    .await;
}
