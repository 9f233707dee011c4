//! Wrong passwords, by account and by address.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use actix_http::Request;
use actix_web::Error;
use actix_web::body::MessageBody;
use actix_web::dev::{Payload, Service, ServiceResponse};
use futures_util::{FutureExt, Stream, stream};

// recipe
use actix_web::{HttpResponse, post, web};
use ratelimit_actix::{concurrency_limit, rate_limit};

/// Ten wrong passwords in ten minutes for an account; one more attempt blocks it. Three attempts at a time.
/// Sixty wrong ones a minute from an address.
#[rate_limit(max = 60, window = "1m", count = "failures", key = "login-ip:{ip}", on_error = "deny")]
#[rate_limit(max = 10, window = "10m", block = "10m", count = "failures", key = "login:{id}")]
#[concurrency_limit(max = 3, key = "login-at-once:{id}")]
#[post("/login/{id}")]
async fn login(id: web::Path<String>, password: String) -> HttpResponse {
    match password.as_str() {
        "correct horse" => HttpResponse::Ok().body(format!("welcome, {id}")),
        _ => HttpResponse::Unauthorized().body("wrong name or password"),
    }
}
// end

fn attempt(peer: &str, name: &str, password: &'static str) -> actix_web::test::TestRequest {
    tests::answer::by(peer, &format!("/login/{name}"))
        .method(actix_web::http::Method::POST)
        .set_payload(password)
}

#[actix_web::test]
async fn wrong_passwords_block_the_account_and_right_ones_do_not_count() {
    crate::on_both_stores(async |limiter| {
        let app = tests::service!(limiter, login);
        let mut statuses = Vec::new();
        for password in ["correct horse", "guess"].repeat(11) {
            statuses.push(tests::send(&app, attempt("192.0.2.1:1", "alice", password)).await.status);
        }
        assert_eq!(statuses[..20], [200, 401].repeat(10), "right passwords do not count");
        assert_eq!(statuses[20..], [429, 429], "after ten wrong ones no attempt is judged");
        let elsewhere = tests::send(&app, attempt("192.0.2.2:1", "alice", "correct horse")).await;
        assert_eq!((elsewhere.status, elsewhere.header("retry-after")), (429, Some("600")));
        let other = tests::send(&app, attempt("192.0.2.1:1", "bob", "correct horse")).await;
        assert_eq!(other.status, 200);
    })
    .await;
}

/// The status codes of log-ins with right passwords from one address, of which each waits for its body until
/// all were sent.
async fn at_once<S, B>(app: &S, names: &[String]) -> Vec<u16>
where
    S: Service<Request, Response = ServiceResponse<B>, Error = Error>,
    B: MessageBody,
{
    let is_open = Rc::new(Cell::new(false));
    let mut sent: Vec<_> = names
        .iter()
        .map(|name| {
            let is_open = Rc::clone(&is_open);
            let mut password = Some(Ok(web::Bytes::from_static(b"correct horse")));
            let body =
                stream::poll_fn(
                    move |_| {
                        if is_open.get() { Poll::Ready(password.take()) } else { Poll::Pending }
                    },
                );
            let payload: Pin<Box<dyn Stream<Item = _>>> = Box::pin(body);
            let request = attempt("192.0.2.1:1", name, "").to_request();
            let (request, _) = request.replace_payload(Payload::Stream { payload });
            Box::pin(tests::answer::send_raw(app, request))
        })
        .collect();
    let early: Vec<_> = sent.iter_mut().map(FutureExt::now_or_never).collect();
    is_open.set(true);
    let mut statuses = Vec::new();
    for (early, sent) in early.into_iter().zip(sent) {
        statuses.push(match early {
            Some(answer) => answer.status,
            None => sent.await.status,
        });
    }
    statuses
}

#[actix_web::test]
async fn an_office_that_logs_in_at_once_is_not_blocked() {
    let app = tests::service!(tests::store::fresh(), login);
    let names: Vec<_> = (0..61).map(|number| format!("user-{number}")).collect();
    let statuses = at_once(&app, &names).await;
    assert_eq!(statuses[..60], [200; 60]);
    assert_eq!(statuses[60], 429, "sixty are in flight");
    let again = tests::send(&app, attempt("192.0.2.1:1", &names[60], "correct horse")).await;
    assert_eq!(again.status, 200, "they do not count any more, and nothing is blocked");
}

#[actix_web::test]
async fn devices_of_one_account_that_log_in_at_once_do_not_block_it() {
    let app = tests::service!(tests::store::fresh(), login);
    let statuses = at_once(&app, &vec!["alice".to_owned(); 11]).await;
    assert_eq!((&statuses[..3], &statuses[3..]), (&[200; 3][..], &[429; 8][..]), "three at a time");
    let again = tests::send(&app, attempt("192.0.2.1:1", "alice", "correct horse")).await;
    assert_eq!(again.status, 200);
}

/// What the page says of unlocking an account.
#[actix_web::test]
async fn the_owner_of_a_blocked_account_gets_it_back() {
    crate::on_both_stores(async |limiter| {
        let app = tests::service!(limiter, login);
        for _ in 0..11 {
            tests::send(&app, attempt("192.0.2.1:1", "alice", "guess")).await;
        }
        let status =
            async || tests::send(&app, attempt("192.0.2.1:1", "alice", "correct horse")).await.status;
        assert_eq!(status().await, 429);
        let limits = ratelimit_actix::declared_limits();
        let of_account = limits.iter().filter(|limit| limit.policy().key() == "login:<id>");
        assert_eq!(of_account.clone().count(), 1);
        for limit in of_account {
            limit.reset_caller(&limiter, "alice").await.unwrap();
        }
        assert_eq!(status().await, 200);
    })
    .await;
}
