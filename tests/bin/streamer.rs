//! A service whose streams do not end; started by `outages/settlements.rs`.
//!
//! Arguments: URL of the server, and the runtime of its `main`, `actix` or `tokio`. Says `ready` and its
//! address. A stream is charged 1000 units, and has used 10 when its first bytes come. `GET /die` ends the
//! worker by a panic.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is the report")]

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::dev::{Service, ServiceRequest, Transform};
use actix_web::web::{Bytes, Data};
use actix_web::{App, HttpResponse, HttpServer, Responder, Result, get};
use futures_util::stream::{self, StreamExt};
use ratelimit_actix::{Quotas, RateLimiter, RedisStore, UsageCounter, rate_limit};

static DIES: AtomicBool = AtomicBool::new(false);

#[rate_limit(max = 1_000_000, window = "1d", name = "units", key = "streamed", by = global, cost = 1000, on_error = "deny")]
#[get("/stream")]
async fn streamed(quotas: Quotas) -> Result<impl Responder> {
    let used = UsageCounter::default();
    let settle = quotas.limit("units")?.settle_on_drop(&used)?;
    let first = stream::once(async move {
        used.add(10);
        Ok::<_, Infallible>(Bytes::from_static(b"used"))
    });
    let body = first.chain(stream::pending()).inspect(move |_| {
        let _settle = &settle;
    });
    Ok(HttpResponse::Ok().streaming(body))
}

#[get("/die")]
async fn die() -> &'static str {
    DIES.store(true, Ordering::SeqCst);
    "soon"
}

/// Panics where a worker asks whether its service is ready.
struct Mortal;

struct MortalService<S>(S);

impl<S: Service<ServiceRequest>> Transform<S, ServiceRequest> for Mortal {
    type Response = S::Response;
    type Error = S::Error;
    type Transform = MortalService<S>;
    type InitError = ();
    type Future = Ready<std::result::Result<MortalService<S>, ()>>;

    fn new_transform(&self, service: S) -> Self::Future {
        ready(Ok(MortalService(service)))
    }
}

impl<S: Service<ServiceRequest>> Service<ServiceRequest> for MortalService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&self, context: &mut Context<'_>) -> Poll<std::result::Result<(), S::Error>> {
        assert!(!DIES.swap(false, Ordering::SeqCst), "as asked");
        self.0.poll_ready(context)
    }

    fn call(&self, request: ServiceRequest) -> Self::Future {
        self.0.call(request)
    }
}

async fn serve(url: String) {
    // For a machine that is busy: a settlement is not sent again when its time is over.
    let store = RedisStore::builder(&url).deadline(Duration::from_secs(20)).build().unwrap();
    let limiter = RateLimiter::new(store);
    while !limiter.is_ready() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let limiter = Data::new(limiter);
    let app = move || App::new().wrap(Mortal).app_data(limiter.clone()).service(streamed).service(die);
    let server = HttpServer::new(app).workers(1).shutdown_timeout(1).bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    println!("ready\n{}", server.addrs()[0]);
    server.run().await.unwrap();
}

#[actix_web::main]
async fn in_actix(url: String) {
    serve(url).await;
}

#[tokio::main]
async fn in_tokio(url: String) {
    serve(url).await;
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    // It ends with the test.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_line(&mut String::new());
        std::process::exit(1);
    });
    let (url, runtime) = (arguments.next().unwrap(), arguments.next().unwrap());
    if runtime == "tokio" { in_tokio(url) } else { in_actix(url) }
}
