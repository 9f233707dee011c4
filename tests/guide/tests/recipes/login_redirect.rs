//! Wrong passwords where a log-in answers right and wrong ones with a redirect.

use actix_web::http::header::CONTENT_TYPE;
use serde::Deserialize;

// recipe
use actix_web::{Result, post, web::Form, web::Redirect};
use ratelimit_actix::{Quotas, rate_limit};

/// Sixty wrong passwords a minute from an address.
#[rate_limit(max = 60, window = "1m", name = "guesses", on_error = "deny")]
#[post("/login")]
async fn login(form: Form<Credentials>, quotas: Quotas) -> Result<Redirect> {
    if !is_right(&form) {
        return Ok(Redirect::to("/login").see_other());
    }
    quotas.limit("guesses")?.settle(0).await?;
    Ok(Redirect::to("/home").see_other())
}
// end

fn is_right(form: &Credentials) -> bool {
    form.password == "correct horse"
}

#[derive(Deserialize)]
struct Credentials {
    password: String,
}

#[actix_web::test]
async fn only_wrong_passwords_count_though_all_are_redirected() {
    crate::on_both_stores(async |limiter| {
        let app = tests::service!(limiter, login);
        let attempt = async |password: &str| {
            let form = tests::answer::by("192.0.2.1:1", "/login")
                .method(actix_web::http::Method::POST)
                .insert_header((CONTENT_TYPE, "application/x-www-form-urlencoded"))
                .set_payload(format!("password={password}"));
            let answer = tests::send(&app, form).await;
            (answer.status, answer.header("location").map(str::to_owned))
        };
        for _ in 0..60 {
            assert_eq!(attempt("correct+horse").await, (303, Some("/home".into())));
            assert_eq!(attempt("guess").await, (303, Some("/login".into())));
        }
        assert_eq!(attempt("correct+horse").await, (429, None));
    })
    .await;
}
