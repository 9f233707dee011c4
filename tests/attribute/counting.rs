//! `count`: what is refunded when a response does not count, and which quota a client sees then.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::web::{Data, Json, Path};
use actix_web::{App, HttpResponse, Responder, get, post};
use ratelimit_actix::rate_limit;
use tests::answer::get as from_client;
use tests::log::Log;
use tests::own_process::in_own_process;
use tests::store::{START, clocked, fresh, watched};
use tests::{send, service};
use tracing::Level;

/// A handler that answers with the status in the path.
macro_rules! handlers {
    ($($path:literal $name:ident: ($($argument:tt)*);)*) => {$(
        #[rate_limit($($argument)*)]
        #[get($path)]
        async fn $name(status: Path<u16>) -> impl Responder {
            HttpResponse::build(StatusCode::from_u16(*status).unwrap())
        }
    )*};
}

handlers! {
    "/all/{status}" all: (max = 3, by = global, count = "all");
    "/failures/{status}" failures: (max = 3, by = global, count = "failures");
    "/chosen/{status}" chosen: (max = |_: Path<u16>| 3, cost = |_: Path<u16>| 2, by = global, count = "failures");
}

#[actix_web::test]
async fn headers_after_a_refund_show_the_refunded_quota() {
    let (limiter, clock) = clocked();
    let app = service!(limiter, failures);
    // Nothing is taken: the full quota is there now.
    let answer = send(&app, from_client("/failures/200")).await;
    assert_eq!(answer.quota(), Some((3, 3, START)));
    // Both limits are charged at first; one is refunded, and the header shows the one that stays charged.
    send(&app, from_client("/failures/404")).await;
    clock.advance(Duration::from_secs(10));
    let answer = send(&app, from_client("/failures/200")).await;
    let (limit, remaining, reset) = answer.quota().unwrap();
    assert_eq!((limit, remaining), (3, 2));
    assert!(reset > START + 10, "{reset}");
}

#[actix_web::test]
async fn a_refund_returns_the_cost_that_was_chosen() {
    let app = service!(fresh(), chosen);
    for (status, left) in [(200, 3), (200, 3), (404, 1), (200, 1)] {
        let answer = send(&app, from_client(&format!("/chosen/{status}"))).await;
        if answer.status == 429 {
            // One is left and the request costs two.
            assert_eq!((status, left), (200, 1));
        } else {
            assert_eq!((answer.status, answer.quota().unwrap().1), (status, left));
        }
    }
}

#[rate_limit(max = 1, by = global, count = "failures")]
#[post("/body")]
async fn body(_body: Json<u8>) -> Result<&'static str, actix_web::Error> {
    Err(actix_web::error::ErrorImATeapot("no coffee"))
}

#[actix_web::test]
async fn errors_of_extractors_and_of_the_handler_count_as_failures() {
    for (payload, status) in [("nonsense", 400), ("1", 418)] {
        let app = service!(fresh(), body);
        let request = || {
            let request = from_client("/body").method(actix_web::http::Method::POST);
            request.insert_header(("content-type", "application/json")).set_payload(payload)
        };
        let answer = send(&app, request()).await;
        assert_eq!((answer.status, answer.quota().unwrap().1), (status, 0));
        assert_eq!(send(&app, request()).await.status, 429);
    }
}

#[rate_limit(max = 3, by = global, key = "failed", count = "failures")]
#[rate_limit(max = 5, by = global, key = "every")]
#[get("/group/{status}")]
async fn group(status: Path<u16>) -> impl Responder {
    HttpResponse::build(StatusCode::from_u16(*status).unwrap())
}

#[actix_web::test]
async fn only_the_limit_that_does_not_count_refunds_in_a_group() {
    let (limiter, watch) = watched();
    let app = service!(limiter, group);
    let mut left = Vec::new();
    for status in [200, 404, 200, 200, 200, 200] {
        let answer = send(&app, from_client(&format!("/group/{status}"))).await;
        let (limit, remaining, _) = answer.quota().unwrap();
        left.push((answer.status, limit, remaining));
    }
    // The header shows the tighter of the two: first the one for failures, at last the other.
    let expected = [(200, 3, 3), (404, 3, 2), (200, 5, 2), (200, 5, 1), (200, 5, 0), (429, 5, 0)];
    assert_eq!(left, expected);
    assert_eq!(watch.refunds(), 4);
}

#[actix_web::test]
async fn count_all_refunds_nothing() {
    let (limiter, watch) = watched();
    let app = service!(limiter, all);
    for status in [200, 500] {
        send(&app, from_client(&format!("/all/{status}"))).await;
    }
    assert_eq!((watch.calls(), watch.refunds()), (2, 0));
}

mod concurrent {
    use std::sync::LazyLock;

    use tokio::sync::Semaphore;

    use super::*;

    static GATE: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(0));

    #[rate_limit(max = 1, by = global, count = "failures")]
    #[get("/slow")]
    async fn slow() -> &'static str {
        GATE.acquire().await.unwrap().forget();
        "ok"
    }

    #[actix_web::test]
    async fn a_request_is_charged_while_its_handler_runs() {
        let app = service!(fresh(), slow);
        let first = send(&app, from_client("/slow"));
        let second = async {
            let answer = send(&app, from_client("/slow")).await;
            GATE.add_permits(2);
            answer.status
        };
        let (first, second) = futures_util::future::join(first, second).await;
        assert_eq!((first.status, second), (200, 429));
        assert_eq!(send(&app, from_client("/slow")).await.status, 200);
    }

    #[rate_limit(max = 1, by = global, count = "failures")]
    #[get("/dropped")]
    async fn dropped() -> &'static str {
        std::future::pending().await
    }

    #[actix_web::test]
    async fn a_dropped_request_stays_charged() {
        let app = service!(fresh(), dropped);
        let request = send(&app, from_client("/dropped"));
        let _ = tokio::time::timeout(Duration::from_millis(1), request).await;
        assert_eq!(send(&app, from_client("/dropped")).await.status, 429);
    }
}

#[test]
fn a_failed_refund_keeps_the_charge_and_is_logged() {
    in_own_process(|| {
        let log = Log::of_process();
        actix_web::rt::System::new().block_on(async {
            let (limiter, watch) = watched();
            let broken = Arc::clone(&watch);
            let app = actix_web::test::init_service(
                App::new().app_data(Data::new(limiter)).app_data(Data::new(broken)).service(breaks),
            )
            .await;
            let answer = send(&app, from_client("/breaks")).await;
            assert_eq!((answer.status, answer.quota().unwrap().1), (200, 1));
            watch.fail(false);
            let answer = send(&app, from_client("/breaks")).await;
            assert_eq!(answer.quota().unwrap().1, 0);
            watch.fail(false);
            assert_eq!(send(&app, from_client("/breaks")).await.status, 429);
        });
        let warnings = log.at(Level::WARN);
        // Two failed, within a second unless the machine pauses.
        assert!((1..=2).contains(&warnings.len()), "{warnings:?}");
        assert!(warnings.iter().all(|line| line.contains("a refund failed")), "{warnings:?}");
    });
}

#[rate_limit(max = 2, by = global, count = "failures")]
#[get("/breaks")]
async fn breaks(watch: Data<Arc<tests::store::Watch>>) -> &'static str {
    watch.fail(true);
    "ok"
}
