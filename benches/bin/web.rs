//! An Actix server with two workers and one route, limited or not. Prints its port, and ends when its
//! standard input does.
//!
//! Arguments: `bare`, `lean`, `floor` or `ours`, the port of a Redis server, and for how many microseconds
//! the handler computes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark: a panic is the report")]
#![allow(clippy::disallowed_methods, reason = "computes for a real time")]

use std::hint::spin_loop;
use std::io::Read;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use actix_web::http::header::HeaderMap;
use actix_web::rt::System;
use actix_web::test::{TestRequest, call_service, init_service};
use actix_web::web::{Data, ServiceConfig};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, get};
use benches::caller::Caller;
use benches::drive::Decider;
use benches::http_load::{BODY, CALLER};
use benches::recorder::{Call, record};
use benches::rivals::{Rival, Way, Wire};
use benches::{ours, server};
use ratelimit_actix::rate_limit;

/// As many as there are cores on the machines that the numbers are compared on.
const WORKERS: usize = 2;

/// Longer than any pause between two rounds.
const KEEP_ALIVE: Duration = Duration::from_secs(600);

/// For how long the handler computes.
static COMPUTES: OnceLock<Duration> = OnceLock::new();

/// What every handler does once its limit has decided.
fn handled() -> &'static str {
    let computes = *COMPUTES.get().expect("set before the server starts");
    if !computes.is_zero() {
        let end = Instant::now() + computes;
        while Instant::now() < end {
            spin_loop();
        }
    }
    BODY
}

#[get("/")]
async fn bare() -> &'static str {
    handled()
}

fn caller(request: &HttpRequest) -> Option<Caller> {
    request.headers().get(CALLER).and_then(|value| Caller::parse(value.to_str().ok()?))
}

#[get("/")]
async fn lean(request: HttpRequest, rival: Data<Rival>) -> HttpResponse {
    match caller(&request) {
        None => HttpResponse::BadRequest().finish(),
        Some(caller) if rival.decide(caller).await => HttpResponse::Ok().body(handled()),
        Some(_) => HttpResponse::TooManyRequests().finish(),
    }
}

/// What one request to our handler sent to Redis, and the header fields of its response.
struct Recorded {
    call: Call,
    fields: HeaderMap,
}

impl Recorded {
    fn at(redis: u16) -> Self {
        let limiter = Data::new(ours::connect(&server::url(redis)));
        let request = async || {
            let app = init_service(App::new().app_data(limiter).service(limited)).await;
            let request = TestRequest::get().insert_header((CALLER, Caller::new(0, 0).text()));
            call_service(&app, request.to_request()).await.headers().clone()
        };
        let mut fields = HeaderMap::new();
        let calls = record(redis, || fields = System::new().block_on(request()));
        let [call] = &calls[..] else { panic!("a request made {} calls", calls.len()) };
        Self { call: call.clone(), fields }
    }
}

#[get("/")]
async fn floor(request: HttpRequest, rival: Data<Rival>, recorded: Data<Recorded>) -> HttpResponse {
    let Some(caller) = caller(&request) else { return HttpResponse::BadRequest().finish() };
    let reply: Vec<u8> = rival.ask(&recorded.call.about(caller)).await;
    // The verdict of a check that passes is left out.
    if reply.ends_with(b"0") {
        return HttpResponse::TooManyRequests().finish();
    }
    let mut response = HttpResponse::Ok().body(handled());
    for (name, value) in &recorded.fields {
        response.headers_mut().insert(name.clone(), value.clone());
    }
    response
}

#[rate_limit(max = 1_000_000, window = "60s", key = "web", by = header("x-caller"))]
#[get("/")]
async fn limited() -> &'static str {
    handled()
}

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let limit = arguments.next().expect("bare, lean, floor or ours");
    let redis: u16 = arguments.next().expect("a port").parse().expect("the number of a port");
    let computes = arguments.next().expect("microseconds").parse().expect("a number of microseconds");
    COMPUTES.set(Duration::from_micros(computes)).expect("set once");
    // Ends with the benchmark, however that ends.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let limiter = (limit == "ours").then(|| Data::new(ours::connect(&server::url(redis))));
    let recorded = (limit == "floor").then(|| Data::new(Recorded::at(redis)));
    let route = move |config: &mut ServiceConfig| match (&*limit, &limiter, &recorded) {
        ("bare", ..) => _ = config.service(bare),
        ("lean", ..) => _ = config.service(lean),
        ("floor", _, Some(recorded)) => _ = config.app_data(recorded.clone()).service(floor),
        ("ours", Some(limiter), _) => _ = config.app_data(limiter.clone()).service(limited),
        _ => panic!("no limit is named {limit}"),
    };
    // A connection of each worker, which only lean and floor use.
    let connect = move || async move {
        let connection = Wire::Single(server::connect(&server::url(redis)).await);
        Ok::<_, ()>(Rival::over(Way::Lean, connection).await)
    };
    System::new().block_on(async move {
        let app = move || App::new().data_factory(connect).configure(&route);
        let server = HttpServer::new(app).workers(WORKERS).keep_alive(KEEP_ALIVE).bind(("127.0.0.1", 0))?;
        println!("{}", server.addrs()[0].port());
        server.run().await
    })
}
