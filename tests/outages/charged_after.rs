//! Limits that charge after the response, while the server dies between the look and the charge.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::test::init_service;
use actix_web::web::{self, Data, Path};
use actix_web::{App, HttpResponse};
use futures_util::future::join_all;
use futures_util::poll;
use ratelimit_actix::{Limit, Policy, RateLimitMiddleware, RateLimiter};
use tests::answer::get;
use tests::outage::until_settled;
use tests::{redis, send};
use tokio::sync::{Barrier, Semaphore};

static KEYS: Policy = Policy::new("outage-wrong-keys", 20, Duration::from_secs(600));

async fn at_once(path: Path<u16>) -> HttpResponse {
    HttpResponse::build(StatusCode::from_u16(*path).unwrap()).finish()
}

/// Requests that wait for the test after they were admitted.
struct InFlight {
    admitted: Barrier,
    go_on: Semaphore,
}

async fn held(path: Path<u16>, in_flight: Data<InFlight>) -> HttpResponse {
    in_flight.admitted.wait().await;
    let _permit = in_flight.go_on.acquire().await.unwrap();
    at_once(path).await
}

macro_rules! app {
    ($limiter:expr, $in_flight:expr) => {
        init_service(
            App::new()
                .app_data(Data::new($limiter))
                .app_data(Data::from(Arc::clone(&$in_flight)))
                .wrap(RateLimitMiddleware::new(
                    Limit::new(&KEYS).count(|status| status == 401).charge_after(),
                ))
                .route("/held/{status}", web::get().to(held))
                .route("/{status}", web::get().to(at_once)),
        )
        .await
    };
}

/// So many requests to `path` while the server dies between their look and their response.
macro_rules! while_the_server_dies {
    ($server:expr, $app:expr, $in_flight:expr, $path:expr, $number:expr) => {{
        let mut requests = Box::pin(join_all((0..$number).map(|_| send(&$app, get($path)))));
        tokio::select! {
            _ = &mut requests => panic!("they wait"),
            _ = $in_flight.admitted.wait() => {}
        }
        $server.kill();
        $in_flight.go_on.add_permits($number);
        let answers = requests.await;
        answers.into_iter().map(|answer| answer.status).collect::<Vec<_>>()
    }};
}

fn in_flight(number: usize) -> Arc<InFlight> {
    // With the test itself.
    Arc::new(InFlight { admitted: Barrier::new(number + 1), go_on: Semaphore::new(0) })
}

#[actix_web::test]
async fn good_requests_in_flight_at_an_outage_lock_nothing() {
    let Some(mut server) = redis::server() else { return };
    let limiter = RateLimiter::redis(&server.url()).unwrap();
    until_settled(&limiter).await;
    let in_flight = in_flight(20);
    let app = app!(limiter.clone(), in_flight);
    assert_eq!(while_the_server_dies!(server, app, in_flight, "/held/200", 20), [200; 20]);
    assert_eq!(send(&app, get("/200")).await.status, 200, "in the outage");
    server.restart();
    until_settled(&limiter).await;
    for _ in 0..25 {
        assert_eq!(send(&app, get("/200")).await.status, 200);
    }
}

/// Looked at by the server, and charged in the process; looked at in the process, and charged by the server.
#[actix_web::test]
async fn a_charge_goes_where_its_response_finds_it() {
    let Some(mut server) = redis::server() else { return };
    let limiter = RateLimiter::redis(&server.url()).unwrap();
    until_settled(&limiter).await;
    let dying = in_flight(20);
    let app = app!(limiter.clone(), dying);
    assert_eq!(while_the_server_dies!(server, app, dying, "/held/401", 20), [401; 20]);
    assert_eq!(send(&app, get("/200")).await.status, 429, "the process has counted them");

    // Another caller is admitted in the outage.
    let returning = in_flight(1);
    let other = app!(limiter.clone(), returning);
    let request = || tests::answer::by("203.0.113.77:1", "/held/401");
    let mut sent = Box::pin(send(&other, request()));
    tokio::select! {
        _ = &mut sent => panic!("it waits"),
        _ = returning.admitted.wait() => {}
    }
    assert!(poll!(&mut sent).is_pending());
    server.restart();
    until_settled(&limiter).await;
    returning.go_on.add_permits(1);
    assert_eq!(sent.await.status, 401);
    let caller = ratelimit_actix::caller::ip(&request().to_http_request());
    assert_eq!(limiter.peek(&KEYS, &caller).await.unwrap().remaining(), 19, "the server has counted it");
    assert_eq!(send(&app, get("/200")).await.status, 200, "it has not counted those of the outage");
}
