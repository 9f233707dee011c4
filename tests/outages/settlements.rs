//! Settlements of streams whose worker ends: at a shutdown that does not wait for them, and by a panic.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use actix_web::web::{Data, ServiceConfig};
use actix_web::{HttpRequest, get};
use ratelimit_actix::rate_limit;
use tests::program::Program;
use tests::redis::{Server, server};
use tests::service::Service;
use tests::{client, within};

/// A service whose streams do not end.
const STREAMER: &str = env!("CARGO_BIN_EXE_streamer");

/// Longest wait for a process: a limit for the test, not a measure.
const PATIENCE: Duration = Duration::from_secs(20);

const STREAMS: u64 = 3;

/// What the service charges for a stream, and to what it settles one.
const ESTIMATE: u64 = 1000;
const USED: u64 = 10;

#[rate_limit(max = 1_000_000, window = "1d", key = "streamed", by = global, cost = |_: &HttpRequest| 0)]
#[get("/left")]
async fn left_of_streamed() -> &'static str {
    "ok"
}

/// Units of all streams that are counted.
struct Counted(Service);

impl Counted {
    fn at(server: &Server) -> Self {
        let limiter = Data::new(server.limiter());
        Self(Service::start(move |app: &mut ServiceConfig| {
            app.app_data(limiter.clone()).service(left_of_streamed);
        }))
    }

    fn now(&self) -> u64 {
        let left = client::get(self.0.address, "/left", &[]);
        1_000_000 - left.header("x-ratelimit-remaining").unwrap().parse::<u64>().unwrap()
    }
}

fn start(server: &Server, runtime: &str) -> (Program, SocketAddr) {
    let mut program = Program::start(STREAMER, &[server.url(), runtime.to_owned()]);
    let address = program.line().parse().unwrap();
    (program, address)
}

/// A stream that runs.
fn stream(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut text = String::new();
    while !text.contains("used") {
        let mut bytes = [0; 1000];
        let read = stream.read(&mut bytes).unwrap();
        assert_ne!(read, 0, "{text}");
        text += std::str::from_utf8(&bytes[..read]).unwrap();
    }
    stream
}

#[test]
fn streams_that_a_shutdown_cuts_are_settled() {
    let Some(server) = server() else { return };
    let counted = Counted::at(&server);
    for (runtime, before) in [("actix", 0), ("tokio", STREAMS * USED)] {
        let (program, address) = start(&server, runtime);
        let _streams: Vec<TcpStream> = (0..STREAMS).map(|_| stream(address)).collect();
        assert_eq!(counted.now(), before + STREAMS * ESTIMATE);
        program.signal("TERM");
        program.wait();
        let expected = before + STREAMS * USED;
        assert!(within(PATIENCE, || counted.now() == expected), "{runtime}: {}", counted.now());
    }
}

#[test]
fn streams_of_a_worker_that_dies_are_settled() {
    let Some(server) = server() else { return };
    let counted = Counted::at(&server);
    for (runtime, before) in [("actix", 0), ("tokio", STREAMS * USED)] {
        let (program, address) = start(&server, runtime);
        let _streams: Vec<TcpStream> = (0..STREAMS).map(|_| stream(address)).collect();
        assert_eq!(counted.now(), before + STREAMS * ESTIMATE);
        let expected = before + STREAMS * USED;
        let is_settled = within(PATIENCE, || {
            // The worker dies when it next looks for a connection.
            if let Ok(mut connection) = TcpStream::connect(address) {
                let _ = connection.write_all(b"GET /die HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
                let _ = connection.set_read_timeout(Some(Duration::from_millis(100)));
                let _ = connection.read(&mut [0; 100]);
            }
            counted.now() == expected
        });
        assert!(is_settled, "{runtime}: {}", counted.now());
        program.kill();
    }
}
