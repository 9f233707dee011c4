//! A cost that is in the body, in a service with an error type of its own.

use std::time::Duration;

// recipe
use actix_web::{HttpRequest, HttpResponse, ResponseError, post, web};
use ratelimit_actix::{Check, IntoCaller, Policy, Rejected, admit};

/// A thousand videos an hour for each account.
static VIDEOS: Policy = Policy::new("videos", 1000, Duration::from_secs(3600));

#[post("/import")]
async fn import(
    req: HttpRequest,
    by: web::ReqData<Account>,
    body: web::Json<Import>,
) -> Result<String, AppError> {
    let cost = body.videos.len() as u64;
    admit(&req, [Check::new(&VIDEOS, &by.id.into_caller()).with_cost(cost)]).await?;
    stored(&body)
}
// end

// error
#[derive(Debug, thiserror::Error)]
enum AppError {
    #[error(transparent)]
    Limit(#[from] Rejected),
    #[error("a video has no name")]
    Unnamed,
}

impl ResponseError for AppError {
    fn error_response(&self) -> HttpResponse {
        match self {
            Self::Limit(rejected) => rejected.error_response(),
            Self::Unnamed => HttpResponse::BadRequest().body(self.to_string()),
        }
    }
}
// end

use actix_web::http::Method;
use actix_web::test::TestRequest;
use actix_web::{App, HttpMessage};
use serde::Deserialize;

#[derive(Clone)]
struct Account {
    id: u64,
}

#[derive(Deserialize)]
struct Import {
    videos: Vec<String>,
}

fn stored(body: &Import) -> Result<String, AppError> {
    if body.videos.iter().any(String::is_empty) {
        return Err(AppError::Unnamed);
    }
    Ok(format!("{} videos", body.videos.len()))
}

fn of(account: u64, videos: usize, name: &str) -> actix_http::Request {
    let request = tests::answer::request(Method::POST, "/import")
        .set_json(serde_json::json!({ "videos": vec![name; videos] }))
        .to_request();
    request.extensions_mut().insert(Account { id: account });
    request
}

#[actix_web::test]
async fn an_import_is_charged_as_a_whole_or_denied() {
    crate::on_both_stores(async |limiter| {
        let app = actix_web::test::init_service(App::new().app_data(limiter).service(import)).await;
        let answer = tests::answer::send_raw(&app, of(1, 700, "video")).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "700 videos"));
        let denied = tests::answer::send_raw(&app, of(1, 301, "video")).await;
        assert_eq!((denied.status, denied.quota().map(|quota| quota.1)), (429, Some(300)));
        assert!(denied.header("retry-after").is_some() && denied.body.contains("Rate limit exceeded."));
        let invalid = tests::answer::send_raw(&app, of(1, 300, "")).await;
        assert_eq!((invalid.status, invalid.body.as_str()), (400, "a video has no name"));
        assert_eq!(tests::answer::send_raw(&app, of(1, 1, "video")).await.status, 429);
        assert_eq!(tests::answer::send_raw(&app, of(2, 1000, "video")).await.status, 200);
        let never = tests::answer::send_raw(&app, of(3, 1001, "video")).await;
        assert_eq!((never.status, never.header("retry-after")), (429, None));
    })
    .await;
}

/// What the page says of a test without an app.
#[actix_web::test]
async fn a_test_makes_the_error_without_an_app() {
    let req = TestRequest::default().app_data(ratelimit_actix::RateLimiter::in_memory()).to_http_request();
    let rejected = admit(&req, [Check::new(&VIDEOS, "account").with_cost(1001)]).await.unwrap_err();
    assert_eq!(AppError::from(rejected).error_response().status(), 429);
}
