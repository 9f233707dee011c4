//! Concurrency limits in the operator's scope: what runs here, what is held in all, and a reset.

use std::convert::Infallible;

use actix_web::dev::Service;
use actix_web::web::{self, Bytes};
use actix_web::{App, HttpResponse, get};
use futures_util::stream;
use ratelimit_actix::{RateLimiter, admin, concurrency_limit};
use serde_json::Value;
use tests::answer::get as from_client;
use tests::redis;

use super::{get_json, is_operator, of, post};

#[concurrency_limit(max = 3, key = "!admin-slots", by = path("account"))]
#[get("/streams/{account}")]
async fn streams() -> HttpResponse {
    HttpResponse::Ok().streaming(stream::pending::<Result<Bytes, Infallible>>())
}

async fn shows_slots(limiter: RateLimiter) {
    let app = App::new()
        .app_data(limiter.clone())
        .service(streams)
        .service(web::scope("/_limits").service(admin(limiter, is_operator).show_callers(true)));
    let app = actix_web::test::init_service(app).await;
    let call = async |path: &str| app.call(from_client(path).to_request()).await.unwrap();
    let mut running = Vec::new();
    for path in ["/streams/acme", "/streams/acme", "/streams/globex"] {
        running.push(call(path).await);
    }
    let limits = get_json(&app, "/_limits/limits.json").await;
    let limit = of(&limits, "!admin-slots");
    assert_eq!((&limit["held"], &limit["admitted"]), (&Value::from(3), &Value::from(3)));
    let numbers = &limit["numbers"][0];
    assert_eq!((&numbers["max"], &numbers["window_us"]), (&Value::from(3), &Value::Null));
    assert_eq!(numbers["algorithm"], "concurrency");
    assert_eq!(numbers["place"]["by"], "path(\"account\")");

    let fields = [("limit", "!admin-slots"), ("caller", "acme")];
    let look = async || -> Value {
        serde_json::from_str(&post(&app, "/_limits/look.json", &fields).await.body).unwrap()
    };
    let found = look().await;
    let counted = &found["counts"][0]["counted"];
    assert_eq!(
        (&found["was_counted"], &counted["units"], &counted["remaining"]),
        (&true.into(), &2.into(), &1.into())
    );
    running.push(call("/streams/acme").await);
    let full = look().await;
    let counted = &full["counts"][0]["counted"];
    assert_eq!((&counted["passes"], &counted["retry_after_us"]), (&false.into(), &Value::Null));
    // As it was when they ended.
    running.clear();
    assert_eq!(of(&get_json(&app, "/_limits/limits.json").await, "!admin-slots")["held"], 0);
    while look().await["was_counted"] != false {
        actix_web::rt::task::yield_now().await;
    }
}

#[actix_web::test]
async fn json_shows_what_runs_here_and_what_is_held_in_memory() {
    shows_slots(RateLimiter::in_memory()).await;
}

#[actix_web::test]
async fn json_shows_what_runs_here_and_what_is_held_in_redis() {
    let Some(server) = redis::server() else { return };
    shows_slots(server.limiter()).await;
}

#[actix_web::test]
async fn a_reset_leaves_the_slots_of_requests_that_run() {
    let limiter = RateLimiter::in_memory();
    let app = App::new()
        .app_data(limiter.clone())
        .service(streams)
        .service(web::scope("/_limits").service(admin(limiter, is_operator)));
    let app = actix_web::test::init_service(app).await;
    let call = async || app.call(from_client("/streams/acme").to_request()).await.unwrap();
    let running = [call().await, call().await, call().await];
    assert_eq!(call().await.status(), 429);
    let reset = async |caller: &str| -> Value {
        let fields = [("limit", "!admin-slots"), ("caller", caller)];
        serde_json::from_str(&post(&app, "/_limits/reset.json", &fields).await.body).unwrap()
    };
    let done = reset("acme").await;
    assert_eq!((&done["is_reset"], &done["was_counted"]), (&true.into(), &true.into()));
    assert_eq!(call().await.status(), 429);
    drop(running);
    let running = [call().await, call().await, call().await];
    assert!(running.iter().all(|response| response.status() == 200));
    assert_eq!(call().await.status(), 429);
    assert_eq!(reset("initech").await["was_counted"], false);
}
