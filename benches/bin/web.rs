//! An Actix server with two workers and one route, limited or not. Prints its port, and ends when its
//! standard input does.
//!
//! Arguments: `bare`, `lean` or `ours`, the URL of a Redis server, and for how many microseconds the handler
//! computes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark: a panic is the report")]
#![allow(clippy::disallowed_methods, reason = "computes for a real time")]

use std::hint::spin_loop;
use std::io::Read;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use actix_web::web::{Data, ServiceConfig};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, Responder, get};
use benches::caller::Caller;
use benches::drive::Decider;
use benches::http_load::{BODY, CALLER};
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

#[get("/")]
async fn lean(request: HttpRequest, rival: Data<Rival>) -> impl Responder {
    let caller = request.headers().get(CALLER).and_then(|value| Caller::parse(value.to_str().ok()?));
    match caller {
        None => HttpResponse::BadRequest().finish(),
        Some(caller) if rival.decide(caller).await => HttpResponse::Ok().body(handled()),
        Some(_) => HttpResponse::TooManyRequests().finish(),
    }
}

#[rate_limit(max = 1_000_000, window = "60s", key = "web", by = header("x-caller"))]
#[get("/")]
async fn limited() -> &'static str {
    handled()
}

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let limit = arguments.next().expect("bare, lean or ours");
    let url = arguments.next().expect("a URL");
    let computes = arguments.next().expect("microseconds").parse().expect("a number of microseconds");
    COMPUTES.set(Duration::from_micros(computes)).expect("set once");
    // Ends with the benchmark, however that ends.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let limiter = (limit == "ours").then(|| Data::new(ours::connect(&url)));
    let route = move |config: &mut ServiceConfig| match (&*limit, &limiter) {
        ("bare", _) => _ = config.service(bare),
        ("lean", _) => _ = config.service(lean),
        ("ours", Some(limiter)) => _ = config.app_data(limiter.clone()).service(limited),
        _ => panic!("no limit is named {limit}"),
    };
    // A connection of each worker, which only the lean limit uses.
    let connect = move || {
        let url = url.clone();
        async move {
            let connection = Wire::Single(server::connect(&url).await);
            Ok::<_, ()>(Rival::over(Way::Lean, connection).await)
        }
    };
    actix_web::rt::System::new().block_on(async move {
        let app = move || App::new().data_factory(connect.clone()).configure(&route);
        let server = HttpServer::new(app).workers(WORKERS).keep_alive(KEEP_ALIVE).bind(("127.0.0.1", 0))?;
        println!("{}", server.addrs()[0].port());
        server.run().await
    })
}
