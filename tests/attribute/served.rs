//! Over real connections, with several workers: what is charged while requests run side by side.

use std::net::SocketAddr;
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::web::{self, Data, Path};
use actix_web::{App, HttpResponse, HttpServer, Responder, get, rt};
use ratelimit_actix::{RateLimiter, rate_limit};
use tests::client;
use tokio::sync::Barrier;

/// As many logins as may try at once.
static TOGETHER: LazyLock<Barrier> = LazyLock::new(|| Barrier::new(5));

#[rate_limit(max = 5, window = "1h", key = "login:{header:x-account}", count = "failures")]
#[get("/login/{status}")]
async fn login(status: Path<u16>) -> impl Responder {
    // No login fails before all that may try are here; if too many are let in, the last of them do not wait
    // for ever.
    if *status == 401 {
        let _ = rt::time::timeout(Duration::from_secs(10), TOGETHER.wait()).await;
    }
    HttpResponse::build(StatusCode::from_u16(*status).unwrap())
}

#[rate_limit(max = |max: Path<u64>| *max, window = "1h", by = global)]
#[get("/max/{max}")]
async fn chosen() -> &'static str {
    "ok"
}

/// Runs `body` against a server with two workers.
fn served(body: impl FnOnce(SocketAddr)) {
    let (started, starts) = mpsc::channel();
    let server = thread::spawn(move || {
        rt::System::new().block_on(async move {
            let limiter = RateLimiter::in_memory();
            let server = HttpServer::new(move || {
                App::new()
                    .app_data(Data::new(limiter.clone()))
                    .service(login)
                    .service(chosen)
                    .default_service(web::to(HttpResponse::NotFound))
            });
            let server = server.workers(2).disable_signals().bind(("127.0.0.1", 0)).unwrap();
            let address = server.addrs()[0];
            let server = server.run();
            started.send((address, server.handle())).unwrap();
            server.await.unwrap();
        });
    });
    let (address, handle) = starts.recv().unwrap();
    body(address);
    rt::System::new().block_on(handle.stop(false));
    server.join().unwrap();
}

/// The status codes of as many requests at the same time.
fn at_once(count: usize, address: SocketAddr, path: &str, account: &str) -> Vec<u16> {
    let header = format!("X-Account: {account}");
    let mut statuses: Vec<u16> = thread::scope(|scope| {
        let requests: Vec<_> =
            (0..count).map(|_| scope.spawn(|| client::get(address, path, &[&header]).status)).collect();
        requests.into_iter().map(|request| request.join().unwrap()).collect()
    });
    statuses.sort_unstable();
    statuses
}

#[test]
fn concurrent_requests_cannot_exceed_the_limit() {
    served(|address| {
        // Each of them would be a failure, and only as many as the limit may run.
        let statuses = at_once(12, address, "/login/401", "one");
        assert_eq!(statuses.iter().filter(|status| **status == 401).count(), 5, "{statuses:?}");
        assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 7, "{statuses:?}");
        // Successes are given back: as many rounds as one likes.
        for _ in 0..3 {
            assert_eq!(at_once(5, address, "/login/200", "two"), [200; 5]);
        }
        let left = client::get(address, "/login/200", &["X-Account: two"]);
        assert_eq!(left.header("x-ratelimit-remaining"), Some("5"));
        assert_eq!(client::get(address, "/login/200", &[]).status, 400);
    });
}

#[test]
fn a_chosen_maximum_holds_for_all_workers() {
    served(|address| {
        let statuses = at_once(10, address, "/max/4", "any");
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 4, "{statuses:?}");
        assert_eq!(client::get(address, "/max/5", &[]).status, 200);
        assert_eq!(client::get(address, "/max/0", &[]).status, 429);
    });
}
