//! What depends on the store, once more through Redis: keys of several parts, chosen maxima, and refunds.

use actix_web::http::StatusCode;
use actix_web::web::Path;
use actix_web::{HttpRequest, HttpResponse, Responder, get};
use ratelimit_actix::rate_limit;
use tests::answer::get as from_client;
use tests::{redis, send, service};

#[rate_limit(max = 1, window = "1h", key = "pair:{a}:{b}")]
#[get("/template/{a}/{b}")]
async fn template() -> &'static str {
    "ok"
}

#[rate_limit(max = 1, window = "1h", by = (path("a"), path("b")))]
#[get("/tuple/{a}/{b}")]
async fn tuple() -> &'static str {
    "ok"
}

#[rate_limit(max = |n: Path<u64>| *n, window = "1h", by = global)]
#[get("/max/{n}")]
async fn chosen() -> &'static str {
    "ok"
}

#[rate_limit(max = 2, window = "1h", by = header("x-api-key"), on_missing = "anonymous", count = "failures")]
#[rate_limit(max = 10, window = "1h", by = global, key = "every", algorithm = "fixed_window")]
#[get("/count/{status}")]
async fn counted(status: Path<u16>, _req: HttpRequest) -> impl Responder {
    HttpResponse::build(StatusCode::from_u16(*status).unwrap())
}

#[actix_web::test]
async fn redis_counts_parts_chosen_maxima_and_refunds_as_memory_does() {
    let Some(server) = redis::server() else { return };
    let limiter = server.limiter();
    let app = service!(limiter, template, tuple, chosen, counted);
    for path in ["template", "tuple"] {
        let mut statuses = Vec::new();
        for parts in ["a:b/c", "a/b:c", "a:b/c"] {
            statuses.push(send(&app, from_client(&format!("/{path}/{parts}"))).await.status);
        }
        assert_eq!(statuses, [200, 200, 429], "{path}");
    }
    let mut statuses = Vec::new();
    for max in [1, 1, 2, 2, 0] {
        statuses.push(send(&app, from_client(&format!("/max/{max}"))).await.status);
    }
    assert_eq!(statuses, [200, 429, 200, 429, 429]);

    let mut left = Vec::new();
    for status in [200, 404, 200, 404, 200] {
        let answer = send(&app, from_client(&format!("/count/{status}"))).await;
        left.push((answer.status, answer.quota().unwrap().1));
    }
    assert_eq!(left, [(200, 2), (404, 1), (200, 1), (404, 0), (429, 0)]);
}
