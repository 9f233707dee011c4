//! What happens in a process: a server that flaps, floods, cancelled requests, panics. `FLAPS` and `FLOOD`
//! set how often the server comes and goes, and the number of callers.

use std::time::Duration;

use actix_web::{App, HttpRequest, HttpServer, web};
use ratelimit_actix::rate_limit;
use ratelimit_core::{RateLimiter, RedisStore};
use tests::client;
use tests::lane::Lane;
use tests::outage::{Outage, PROBE};
use tests::own_process::in_own_process;
use tests::proxy::{Mode, Proxy};
use tests::redis::server;
use tests::strategies::cases;
use tokio::runtime::Builder;

use super::{SECOND, patient};

#[test]
fn a_flapping_server_leaves_nothing_behind() {
    in_own_process(|| tests::flapping::flap(cases("FLAPS", 3)));
}

#[test]
fn a_flood_of_callers_stays_within_memory_and_frees_no_denied_caller() {
    in_own_process(|| tests::flood::flood(cases("FLOOD", 300_000).into()));
}

#[tokio::test]
async fn cancelled_requests_leave_nothing_behind() {
    let Some(server) = server() else { return };
    for lane in Lane::BOTH {
        let proxy = Proxy::before(server.port());
        let name = format!("given up, {lane:?}");
        let outage = Outage::with(&name, RedisStore::builder(&proxy.url()).deadline(20 * SECOND));
        lane.until_connected(&outage.limiter).await;
        let connections = proxy.accepted();
        proxy.set(Mode::Delay(Duration::from_millis(2)));
        let (limiter, name) = (&outage.limiter, &name);
        let requests = (0..500u64).map(|i| async move {
            tokio::time::sleep(Duration::from_millis(i / 5)).await;
            let check = lane.check(limiter, &PROBE, name);
            tokio::time::timeout(Duration::from_millis(i % 12), check).await.is_ok()
        });
        let answered =
            futures_util::future::join_all(requests).await.into_iter().filter(|answered| *answered).count();
        proxy.set(Mode::Pass);
        let patient = patient(&server.url());
        let left = patient.peek(&PROBE, name).await.unwrap().remaining();
        let charged = PROBE.max() - left;
        println!("{lane:?}: 500 requests: {answered} answered, {charged} charged");
        assert!(charged <= 500);
        assert_eq!(proxy.accepted(), connections, "the connection served on");
        assert!(charged >= u64::try_from(answered).unwrap());
    }
}

#[test]
fn a_limiter_survives_a_runtime_that_ends_amid_requests() {
    let Some(server) = server() else { return };
    for (lane, threads) in [(Lane::Store, 2), (Lane::Worker, 0)] {
        let runtime = || match threads {
            0 => Builder::new_current_thread().enable_all().build().unwrap(),
            _ => Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap(),
        };
        let limiter = RateLimiter::redis(&server.url()).unwrap();
        let first = runtime();
        first.block_on(lane.until_connected(&limiter));
        server.signal("STOP");
        first.block_on(async {
            for _ in 0..50 {
                let limiter = limiter.clone();
                tokio::spawn(async move { lane.check(&limiter, &PROBE, "a").await.is_ok() });
            }
            tokio::task::yield_now().await;
        });
        drop(first);
        server.signal("CONT");
        let second = runtime();
        let decides = || second.block_on(lane.check(&limiter, &PROBE, "a")).is_ok();
        assert!(tests::within(10 * SECOND, decides), "{lane:?}");
    }
}

#[rate_limit(max = 5, algorithm = "sliding_window_log", by = caller)]
async fn limited() -> &'static str {
    "passed"
}

fn caller(req: &HttpRequest) -> String {
    req.headers().get("x-caller").unwrap().to_str().unwrap().to_owned()
}

#[test]
fn a_panicking_caller_function_fails_only_its_own_request() {
    use std::io::{Read, Write};
    let (sender, receiver) = std::sync::mpsc::channel();
    let serve = move || {
        actix_web::rt::System::new().block_on(async move {
            let limiter = RateLimiter::in_memory();
            let app = move || {
                App::new().app_data(web::Data::new(limiter.clone())).route("/", web::get().to(limited))
            };
            let server = HttpServer::new(app).workers(1).disable_signals().bind(("127.0.0.1", 0)).unwrap();
            let address = server.addrs()[0];
            let running = server.run();
            sender.send((address, running.handle())).unwrap();
            running.await.unwrap();
        });
    };
    let server = std::thread::spawn(serve);
    let (address, handle) = receiver.recv().unwrap();
    for round in 0..3 {
        assert_eq!(
            client::get(address, "/", &["x-caller: a"]).header("x-ratelimit-remaining"),
            Some(["4", "3", "2"][round])
        );
        let mut connection = std::net::TcpStream::connect(address).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        connection.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        let _ = connection.read_to_string(&mut answer);
        assert!(!answer.contains(" 200 "), "{answer}");
    }
    actix_web::rt::System::new().block_on(handle.stop(false));
    server.join().unwrap();
}
