//! A client that honours `Retry-After`.

use std::cell::Cell;
use std::time::Duration;

use actix_web::{get, web};
use ratelimit_actix::rate_limit;

// recipe
use actix_web::http::{StatusCode, header::RETRY_AFTER};
use awc::{Client, error::SendRequestError as Error};

/// Sends a request until its answer is neither a 429 nor a 503 that tells when to come again.
async fn patient(client: &Client, url: &str, sleep: impl AsyncFn(Duration)) -> Result<StatusCode, Error> {
    loop {
        let response = client.get(url).send().await?;
        let wait = response.headers().get(RETRY_AFTER).and_then(|wait| wait.to_str().ok()?.parse().ok());
        match (response.status().as_u16(), wait) {
            (429 | 503, Some(wait)) => sleep(Duration::from_secs(wait)).await,
            _ => return Ok(response.status()),
        }
    }
}
// end

#[rate_limit(max = 3, window = "7s", algorithm = "fixed_window")]
#[get("/fixed")]
async fn fixed() -> &'static str {
    "ok"
}

#[rate_limit(max = 3, window = "7s")]
#[get("/counter")]
async fn counter() -> &'static str {
    "ok"
}

#[rate_limit(max = 3, window = "7s", sub_windows = 7)]
#[get("/finer")]
async fn finer() -> &'static str {
    "ok"
}

#[rate_limit(max = 3, window = "7s", algorithm = "sliding_window_log")]
#[get("/log")]
async fn log() -> &'static str {
    "ok"
}

#[rate_limit(max = 3, window = "7s", algorithm = "token_bucket", burst = 2)]
#[get("/bucket")]
async fn bucket() -> &'static str {
    "ok"
}

#[rate_limit(max = 3, window = "7s", block = "20s")]
#[get("/block")]
async fn block() -> &'static str {
    "ok"
}

/// Forty requests under each kind of limit: between them the clock moves by fractions of a second, and a wait is exactly as long
/// as it was told.
#[actix_web::test]
async fn a_patient_client_never_sees_a_second_429() {
    let (limiter, clock) = tests::store::clocked();
    let limiter = web::Data::new(limiter);
    let service = tests::service::Service::start(move |app| {
        app.app_data(limiter.clone()).service((fixed, counter, finer, log, bucket, block));
    });
    let client = Client::default();
    for path in ["fixed", "counter", "finer", "log", "bucket", "block"] {
        let url = format!("http://{}/{path}", service.address);
        let mut waited = 0;
        for number in 0..40 {
            let waits = Cell::new(0);
            let sleep = async |wait: Duration| {
                waits.set(waits.get() + 1);
                clock.advance(wait);
            };
            assert_eq!(patient(&client, &url, sleep).await.unwrap(), StatusCode::OK);
            assert!(waits.get() <= 1, "{path}: {} waits for request {number}", waits.get());
            waited += waits.get();
            clock.advance(Duration::from_micros(137_411 * (number % 5)));
        }
        assert!(waited >= 5, "{path}: only {waited} waits");
    }
}
