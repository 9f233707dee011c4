//! Wrong passwords, by account and by address.

// recipe
use actix_web::{HttpResponse, post, web};
use ratelimit_actix::rate_limit;

/// Ten wrong passwords a minute for an account, twenty from an address; one more blocks for ten minutes.
#[rate_limit(max = 20, window = "1m", block = "10m", count = "failures", key = "by:{ip}", on_error = "deny")]
#[rate_limit(max = 10, window = "1m", block = "10m", count = "failures", key = "as:{id}", on_error = "deny")]
#[post("/login/{id}")]
async fn login(id: web::Path<String>, password: String) -> HttpResponse {
    match password.as_str() {
        "correct horse" => HttpResponse::Ok().body(format!("welcome, {id}")),
        _ => HttpResponse::Unauthorized().body("wrong name or password"),
    }
}
// end

#[actix_web::test]
async fn wrong_passwords_block_the_account_and_right_ones_do_not_count() {
    let limiter = tests::store::fresh();
    let app = tests::service!(limiter, login);
    let try_password = |peer: &str, name: &str, password: &'static str| {
        tests::answer::by(peer, &format!("/login/{name}"))
            .method(actix_web::http::Method::POST)
            .set_payload(password)
    };
    let mut statuses = Vec::new();
    for password in ["correct horse", "guess"].repeat(11) {
        statuses.push(tests::send(&app, try_password("192.0.2.1:1", "alice", password)).await.status);
    }
    assert_eq!(statuses[..20], [200, 401].repeat(10), "right passwords do not count");
    assert_eq!(statuses[20..], [429, 429], "after ten wrong ones no attempt is judged");
    let elsewhere = tests::send(&app, try_password("192.0.2.2:1", "alice", "correct horse")).await;
    assert_eq!((elsewhere.status, elsewhere.header("retry-after")), (429, Some("600")));
    let other = tests::send(&app, try_password("192.0.2.1:1", "bob", "correct horse")).await;
    assert_eq!(other.status, 200);
}
