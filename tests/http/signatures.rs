//! Handlers with none to sixteen arguments, and what they return.

use actix_web::http::Method;
use actix_web::web::{self, Bytes};
use actix_web::{HttpRequest, HttpResponse, Responder, get, post};
use ratelimit_actix::rate_limit;
use tests::answer::{get, request};
use tests::store::fresh;
use tests::{send, service};

#[rate_limit]
#[get("/none")]
async fn none() -> impl Responder {
    "none"
}

#[rate_limit]
#[post("/sixteen")]
#[allow(clippy::too_many_arguments, clippy::many_single_char_names, reason = "the most that Actix allows")]
async fn sixteen(
    a: HttpRequest,
    b: HttpRequest,
    c: HttpRequest,
    d: HttpRequest,
    e: HttpRequest,
    f: HttpRequest,
    g: HttpRequest,
    h: HttpRequest,
    i: HttpRequest,
    j: HttpRequest,
    k: HttpRequest,
    l: HttpRequest,
    m: HttpRequest,
    n: HttpRequest,
    o: HttpRequest,
    body: String,
) -> String {
    let requests = [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o];
    format!("{} {body}", requests.len())
}

#[rate_limit]
#[post("/form")]
async fn form(web::Query(query): web::Query<Vec<(String, u8)>>, body: Bytes) -> HttpResponse {
    HttpResponse::Created().body(format!("{query:?} {}", body.len()))
}

/// Actix makes a type of each handler's name; none of them may get in the way of what the attribute writes.
mod letters {
    use super::*;

    #[rate_limit]
    #[get("/e")]
    pub(super) async fn e(request: HttpRequest) -> String {
        request.path().to_owned()
    }

    #[rate_limit]
    #[get("/r")]
    pub(super) async fn r() -> Result<&'static str, actix_web::Error> {
        Ok("r")
    }
}

#[actix_web::test]
async fn handlers_have_none_to_sixteen_arguments() {
    let app = service!(fresh(), none, sixteen, form, letters::e, letters::r);
    assert_eq!(send(&app, get("/none")).await.body, "none");
    let post = request(Method::POST, "/sixteen").set_payload("body");
    assert_eq!(send(&app, post).await.body, "15 body");
    let post = request(Method::POST, "/form?a=1").set_payload("body");
    let answer = send(&app, post).await;
    assert_eq!((answer.status, answer.body.as_str()), (201, r#"[("a", 1)] 4"#));
    assert_eq!(send(&app, get("/e")).await.body, "/e");
    assert_eq!(send(&app, get("/r")).await.body, "r");
}
