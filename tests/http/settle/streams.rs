//! Settling when a streaming body ends, or when the client goes away.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix_web::rt::System;
use actix_web::rt::task::yield_now;
use actix_web::web::{Bytes, Data, Path, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse, Responder, Result, get};
use futures_util::stream::{self, StreamExt};
use ratelimit_actix::{Quotas, RateLimiter, SettleOnDrop, UsageCounter, rate_limit};
use ratelimit_core::store::toolkit::Operation;
use ratelimit_core::store::{Deadline, Store};
use ratelimit_core::{Check, GroupOutcome, MemoryStore, RedisStore, Reservation, StoreError};
use tests::answer::get as from_client;
use tests::log::Log;
use tests::service::Service;
use tests::store::fresh;
use tests::{client, redis, send, service, within};
use tracing::Level;

/// Longest wait for a server: a limit for the test, not a measure.
const PATIENCE: Duration = Duration::from_secs(20);

const MAX: u64 = 1_000_000_000;

/// A stream of this many chunks, one unit each; it counts those that are sent.
#[rate_limit(max = 1_000_000_000, window = "1d", name = "units", key = "streamed", by = global, cost = 1000)]
#[get("/stream/{chunks}")]
async fn streamed(chunks: Path<u64>, sent: Data<UsageCounter>, quotas: Quotas) -> Result<impl Responder> {
    let sent = UsageCounter::clone(&sent);
    let settle = quotas.limit("units")?.settle_on_drop(&sent)?;
    let body = stream::iter(0..*chunks).then(move |_| {
        let _settle = &settle;
        sent.add(1);
        // Lets the server notice a client that has gone away.
        async {
            yield_now().await;
            Ok::<_, Infallible>(Bytes::from_static(b"chunk\n"))
        }
    });
    Ok(HttpResponse::Ok().streaming(body))
}

/// Fails after the limit is to be settled, and before anything is sent.
#[rate_limit(max = 1_000_000_000, window = "1d", name = "units", key = "streamed", by = global, cost = 1000)]
#[get("/failed")]
async fn failed(quotas: Quotas) -> Result<HttpResponse> {
    let units = Arc::new(AtomicU64::new(0));
    let _settle = quotas.limit("units")?.settle_on_drop(units)?;
    Err(actix_web::error::ErrorBadGateway("no answer"))
}

/// A limit that counts only failures, and is settled by the stream.
#[rate_limit(max = 1_000_000_000, window = "1d", name = "units", key = "streamed", by = global, cost = 1000, count = "failures")]
#[get("/failures")]
async fn failures(quotas: Quotas) -> Result<HttpResponse> {
    let units = Arc::new(AtomicU64::new(7));
    let settle = quotas.limit("units")?.settle_on_drop(Arc::clone(&units))?;
    let body = stream::once(async move {
        // Not the number of the start.
        units.store(9, Ordering::Relaxed);
        drop(settle);
        Ok::<_, Infallible>(Bytes::from_static(b"done"))
    });
    Ok(HttpResponse::Ok().streaming(body))
}

#[rate_limit(max = 1_000_000_000, window = "1d", key = "streamed", by = global, cost = |_: &HttpRequest| 0)]
#[get("/left")]
async fn left_over() -> &'static str {
    "ok"
}

/// A service, and what its streams have sent.
fn start(limiter: &RateLimiter) -> (Service, UsageCounter) {
    let (limiter, sent) = (Data::new(limiter.clone()), UsageCounter::default());
    let counter = Data::new(sent.clone());
    let service = Service::start(move |app: &mut ServiceConfig| {
        app.app_data(limiter.clone()).app_data(counter.clone());
        app.service(streamed).service(failed).service(failures).service(left_over);
    });
    (service, sent)
}

/// Units that are counted now.
fn counted(service: &Service) -> u64 {
    let left = client::get(service.address, "/left", &[]);
    MAX - left.header("x-ratelimit-remaining").unwrap().parse::<u64>().unwrap()
}

fn settles_streams(limiter: &RateLimiter) {
    let (service, sent) = start(limiter);
    // To its end, below and above the estimate.
    for chunks in [3, 5000] {
        let before = counted(&service);
        let already = sent.get();
        let whole = client::get(service.address, &format!("/stream/{chunks}"), &[]);
        assert_eq!(whole.status, 200);
        // The counter goes on from the stream before.
        let expected = before + already + chunks;
        assert!(within(PATIENCE, || counted(&service) == expected), "{} {expected}", counted(&service));
    }
    let before = counted(&service);
    // Nothing was sent: everything is given back.
    assert_eq!(client::get(service.address, "/failed", &[]).status, 502);
    assert!(within(PATIENCE, || counted(&service) == before), "{}", counted(&service));
    // The response does not count, and is settled all the same.
    assert_eq!(client::get(service.address, "/failures", &[]).status, 200);
    assert!(within(PATIENCE, || counted(&service) == before + 9), "{}", counted(&service));
}

#[test]
fn a_stream_is_settled_at_its_end_in_memory() {
    settles_streams(&fresh());
}

#[test]
fn a_stream_is_settled_at_its_end_in_redis() {
    let Some(server) = redis::server() else { return };
    settles_streams(&server.limiter());
}

/// A client that reads the beginning of an endless answer and goes away.
fn settles_what_was_sent(limiter: &RateLimiter) {
    let (service, sent) = start(limiter);
    let mut client = TcpStream::connect(service.address).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(b"GET /stream/900000000 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    client.read_exact(&mut [0; 4000]).unwrap();
    assert_eq!(counted(&service), 1000, "the estimate, while the answer is sent");
    drop(client);
    // What the server had sent when it noticed. The stream and its counter have ended by then.
    assert!(within(PATIENCE, || counted(&service) != 1000), "still the estimate");
    assert_eq!(counted(&service), sent.get());
    assert!((100..900_000_000).contains(&sent.get()), "{}", sent.get());
    // Nothing comes later.
    let end = sent.get();
    assert!(!within(Duration::from_millis(20), || sent.get() != end || counted(&service) != end));
}

#[test]
fn a_stream_that_the_client_cuts_is_settled_to_what_was_sent_in_memory() {
    settles_what_was_sent(&fresh());
}

#[test]
fn a_stream_that_the_client_cuts_is_settled_to_what_was_sent_in_redis() {
    let Some(server) = redis::server() else { return };
    settles_what_was_sent(&server.limiter());
}

#[actix_web::test]
async fn a_counter_above_a_trillion_is_settled_to_a_trillion() {
    #[rate_limit(max = 100, window = "1d", name = "units", by = global, cost = 10)]
    #[get("/")]
    async fn endless(quotas: Quotas) -> Result<String> {
        let left = quotas.remaining().unwrap().to_string();
        let counter = UsageCounter::default();
        counter.add(u64::MAX);
        drop(quotas.limit("units")?.settle_on_drop(counter)?);
        Ok(left)
    }
    let app = service!(fresh(), endless);
    assert_eq!(send(&app, from_client("/")).await.body, "90");
    assert_eq!(send(&app, from_client("/")).await.status, 429, "a debt");
}

#[actix_web::test]
async fn an_estimate_is_kept_until_the_stream_says_how_much() {
    #[rate_limit(max = 100, window = "1d", name = "units", by = global, cost = 10)]
    #[get("/{report}")]
    async fn reported(report: Path<String>, quotas: Quotas) -> Result<&'static str> {
        let used = UsageCounter::or_estimate();
        let settle = quotas.limit("units")?.settle_on_drop(&used)?;
        match report.as_str() {
            "nothing" => {}
            "chunks" => (0..3).for_each(|_| used.add(1)),
            total => used.set(total.parse().unwrap()),
        }
        drop(settle);
        Ok("ok")
    }
    let app = service!(fresh(), reported);
    let mut left = Vec::new();
    for report in ["nothing", "0", "chunks", "0"] {
        left.push(send(&app, from_client(&format!("/{report}"))).await.quota().unwrap().1);
    }
    // Before each settlement: an estimate of 10, which stayed the first time, went the second, and became 3.
    assert_eq!(left, [90, 80, 80, 77]);
}

thread_local! {
    static GUARD: RefCell<Option<SettleOnDrop>> = const { RefCell::new(None) };
}

#[rate_limit(max = 100, window = "1d", name = "units", key = "kept", by = global, cost = 10)]
#[get("/kept")]
async fn kept(quotas: Quotas) -> Result<String> {
    let left = quotas.remaining().unwrap().to_string();
    GUARD.set(Some(quotas.limit("units")?.settle_on_drop(Arc::new(AtomicU64::new(4)))?));
    Ok(left)
}

#[rate_limit(max = 100, window = "1d", name = "units", key = "kept", by = global, cost = |_: &HttpRequest| 0)]
#[get("/kept/left")]
async fn left_of_kept(quotas: Quotas) -> String {
    quotas.remaining().unwrap().to_string()
}

/// One request, in a runtime that has ended when this returns.
fn once(limiter: &RateLimiter, path: &str) -> String {
    let answer = async { send(&service!(limiter, kept, left_of_kept), from_client(path)).await };
    System::new().block_on(answer).body
}

/// A store whose calls take time, without a thread of its own.
#[derive(Debug)]
struct Threadless(MemoryStore);

impl Store for Threadless {
    async fn decide(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        deadline: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        yield_now().await;
        self.0.decide(group, operation, deadline).await
    }

    async fn reset(&self, group: &[Check<'_>], deadline: Deadline) -> Result<(), StoreError> {
        self.0.reset(group, deadline).await
    }

    async fn refund(&self, reservation: &Reservation<'_>, deadline: Deadline) -> Result<(), StoreError> {
        yield_now().await;
        self.0.refund(reservation, deadline).await
    }

    fn deadline(&self) -> Option<Duration> {
        Some(PATIENCE)
    }
}

#[test]
fn a_settlement_needs_no_runtime() {
    let (log, _guard) = Log::of_thread();
    let in_memory = fresh();
    assert_eq!(once(&in_memory, "/kept"), "90");
    drop(GUARD.take());
    assert_eq!(once(&in_memory, "/kept/left"), "96", "settled at once");
    if let Some(server) = redis::server() {
        let in_redis = server.limiter();
        assert_eq!(once(&in_redis, "/kept"), "90");
        drop(GUARD.take());
        assert!(within(PATIENCE, || once(&in_redis, "/kept/left") == "96"));
    }
    assert_eq!(log.at(Level::ERROR), [""; 0]);
}

#[test]
fn a_store_without_a_thread_settles_in_a_runtime_and_an_error_is_logged_without() {
    let (log, _guard) = Log::of_thread();
    let limiter = RateLimiter::new(Threadless(MemoryStore::new()));
    assert_eq!(once(&limiter, "/kept"), "90");
    System::new().block_on(async {
        drop(GUARD.take());
        // More often than the settlement waits.
        for _ in 0..10 {
            yield_now().await;
        }
    });
    assert_eq!(once(&limiter, "/kept/left"), "96");
    assert_eq!(log.at(Level::ERROR), [""; 0]);
    assert_eq!(once(&limiter, "/kept"), "86");
    drop(GUARD.take());
    assert_eq!(once(&limiter, "/kept"), "76", "stays charged");
    // The runtime ends before the task has run.
    System::new().block_on(async { drop(GUARD.take()) });
    assert_eq!(once(&limiter, "/kept/left"), "76", "stays charged");
    let errors = log.at(Level::ERROR);
    assert!(errors.len() == 2 && errors.iter().all(|error| error.contains("no tokio runtime")), "{errors:?}");
}

/// The server is queried when the limiter is gone.
#[test]
fn a_settlement_outlives_the_last_limiter() {
    let Some(server) = redis::server() else { return };
    let limiter = RateLimiter::new(RedisStore::builder(&server.url()).deadline(PATIENCE).build().unwrap());
    assert_eq!(once(&limiter, "/kept"), "90");
    server.signal("STOP");
    drop(GUARD.take());
    drop(limiter);
    server.signal("CONT");
    let other = server.limiter();
    assert!(within(PATIENCE, || once(&other, "/kept/left") == "96"));
}
