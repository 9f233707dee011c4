//! Keep-alive connections to a web server, each of which sends its next request as soon as it has its
//! response.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

use crate::caller::Caller;
use crate::random::Random;

/// The body of every response.
pub const BODY: &str = "ok";

/// The header field with the caller.
pub const CALLER: &str = "x-caller";

/// Connections that are open; one thread drives them all.
#[derive(Debug)]
pub struct Connections {
    runtime: Runtime,
    streams: Vec<TcpStream>,
    requests: Arc<[String]>,
}

/// The responses to a load.
#[derive(Clone, Debug, Default)]
pub struct Responses {
    /// Nanoseconds from each request to its response.
    pub times: Vec<f64>,
    /// Seconds that the load took.
    pub seconds: f64,
}

impl Connections {
    /// Opens connections to a server on this machine, for requests of so many callers.
    ///
    /// # Panics
    ///
    /// When the server does not accept them.
    pub fn open(port: u16, number: usize, callers: u64) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let streams = runtime.block_on(async {
            let mut streams = Vec::with_capacity(number);
            for _ in 0..number {
                let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                stream.set_nodelay(true).unwrap();
                streams.push(stream);
            }
            streams
        });
        let request = |caller: Caller| {
            format!("GET / HTTP/1.1\r\nhost: localhost\r\n{CALLER}: {}\r\n\r\n", caller.text())
        };
        let requests = (0..callers).map(|number| request(Caller::new(0, number))).collect();
        Self { runtime, streams, requests }
    }

    /// Sends requests over all connections for this time, and waits for the responses to the last ones.
    ///
    /// # Panics
    ///
    /// When a response is not the expected one.
    pub fn load(&mut self, span: Duration) -> Responses {
        let start = Instant::now();
        let mut responses = Responses::default();
        self.runtime.block_on(async {
            let converse = |stream| tokio::spawn(converse(stream, Arc::clone(&self.requests), start + span));
            let tasks: Vec<_> = self.streams.drain(..).map(converse).collect();
            for task in tasks {
                let (stream, times) = task.await.unwrap();
                self.streams.push(stream);
                responses.times.extend(times);
            }
        });
        responses.seconds = start.elapsed().as_secs_f64();
        responses
    }
}

/// Sends one request after the other until `end`, each of any caller.
async fn converse(mut stream: TcpStream, requests: Arc<[String]>, end: Instant) -> (TcpStream, Vec<f64>) {
    let (mut random, mut times, mut buffer) = (Random::default(), Vec::new(), [0; 4096]);
    let mut sent = Instant::now();
    while sent < end {
        let request = &requests[random.below(requests.len() as u64) as usize];
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut length = 0;
        while !is_complete(&buffer[..length]) {
            let read = stream.read(&mut buffer[length..]).await.unwrap();
            assert!(read > 0, "the response ended early: {}", String::from_utf8_lossy(&buffer[..length]));
            length += read;
        }
        let received = Instant::now();
        times.push((received - sent).as_nanos() as f64);
        sent = received;
    }
    (stream, times)
}

/// Whether this is the whole response. All are alike, so that there is nothing to parse.
fn is_complete(response: &[u8]) -> bool {
    const OK: &[u8] = b"HTTP/1.1 200 OK\r\n";
    assert!(
        OK.starts_with(&response[..response.len().min(OK.len())]),
        "not the expected response: {}",
        String::from_utf8_lossy(response)
    );
    response.strip_suffix(BODY.as_bytes()).is_some_and(|head| head.ends_with(b"\r\n\r\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_complete_with_its_body() {
        assert!(is_complete(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"));
        assert!(!is_complete(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"));
        assert!(!is_complete(b"HTTP/1.1 2"));
        assert!(!is_complete(b""));
    }

    #[test]
    #[should_panic(expected = "not the expected response: HTTP/1.1 429")]
    fn a_denial_is_not_expected() {
        is_complete(b"HTTP/1.1 429 Too Many Requests\r\n");
    }
}
