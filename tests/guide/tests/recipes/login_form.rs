//! Wrong passwords by account, where the name is in the body.

use std::time::Duration;

use actix_web::error::ErrorUnauthorized;
use actix_web::http::header::CONTENT_TYPE;
use ratelimit_actix::{OnError, Policy};
use serde::Deserialize;

// recipe
use actix_web::{HttpRequest, Result, http::StatusCode, post, web::Form};
use ratelimit_actix::{Check, IntoCaller, admit, rate_limit};

#[rate_limit(max = 60, window = "1m", count = |status: StatusCode| status == 401, on_error = "deny")]
#[post("/session")]
async fn session(req: HttpRequest, form: Form<Credentials>) -> Result<String> {
    let account = form.name.as_str().into_caller();
    let attempt = admit(&req, [Check::new(&WRONG, &account).uncharged()]).await?;
    let verified = verify(&form);
    if verified.is_err() {
        attempt.charge().await;
    }
    verified.map(|()| format!("welcome, {}", form.name))
}
// end

/// Rejects a wrong password with 401.
fn verify(form: &Credentials) -> Result<()> {
    let is_right = form.password == "correct horse";
    is_right.then_some(()).ok_or_else(|| ErrorUnauthorized("wrong name or password"))
}

/// Ten wrong passwords in ten minutes, then a block of ten minutes.
static WRONG: Policy = Policy::builder("wrong-passwords")
    .max(10)
    .window(Duration::from_secs(600))
    .block(Duration::from_secs(600))
    .on_error(OnError::Deny)
    .build();

#[derive(Deserialize)]
struct Credentials {
    name: String,
    password: String,
}

#[actix_web::test]
async fn ten_wrong_passwords_in_a_form_block_the_account() {
    crate::on_both_stores(async |limiter| {
        let app = tests::service!(limiter, session);
        let attempt = async |name: &str, password: &str| {
            let form = tests::answer::by("192.0.2.1:1", "/session")
                .method(actix_web::http::Method::POST)
                .insert_header((CONTENT_TYPE, "application/x-www-form-urlencoded"))
                .set_payload(format!("name={name}&password={password}"));
            tests::send(&app, form).await
        };
        for _ in 0..12 {
            assert_eq!(attempt("alice", "correct+horse").await.status, 200, "a right one does not count");
        }
        for _ in 0..10 {
            assert_eq!(attempt("alice", "guess").await.status, 401);
        }
        let denied = attempt("alice", "correct+horse").await;
        assert_eq!((denied.status, denied.header("retry-after")), (429, Some("600")));
        assert_eq!(denied.header("cache-control"), Some("no-store"));
        assert_eq!(denied.quota().map(|(limit, remaining, _)| (limit, remaining)), Some((10, 0)));
        assert!(denied.body.contains("Try again in 600 seconds."), "{}", denied.body);
        assert_eq!(attempt("bob", "correct+horse").await.status, 200);
        // The address has 60 wrong passwords a minute, 50 of which are left: neither a block nor a right
        // password counts.
        for _ in 0..60 {
            assert_eq!(attempt("alice", "guess").await.status, 429);
        }
        for guess in 0..50 {
            assert_eq!(attempt(&format!("name{guess}"), "guess").await.status, 401);
        }
        let denied = attempt("bob", "correct+horse").await;
        assert_eq!((denied.status, denied.header("x-ratelimit-limit")), (429, Some("60")));
    })
    .await;
}
