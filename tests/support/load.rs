//! A steady load over real connections, as clients make it: each sends on time, whatever happened before.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Connections among which the load is spread.
const CONNECTIONS: u32 = 20;

/// What one request got.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// When it was sent.
    pub at: Instant,
    pub took: Duration,
    /// 0 when the connection was lost.
    pub status: u16,
}

/// A running load.
#[derive(Debug)]
pub struct Load {
    ends: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Vec<Answer>>>,
}

impl Load {
    /// Sends `GET path`, `per_second` times a second.
    pub fn start(server: SocketAddr, path: &str, per_second: u32) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let pause = Duration::from_secs(1) * CONNECTIONS / per_second;
        let clients = (0..CONNECTIONS).map(|i| {
            let (ends, path) = (Arc::clone(&ends), path.to_owned());
            thread::spawn(move || {
                thread::sleep(pause * i / CONNECTIONS);
                client(server, &path, pause, &ends)
            })
        });
        Self { clients: clients.collect(), ends }
    }

    /// Stops the load and returns all answers, in the order of their requests.
    pub fn stop(self) -> Vec<Answer> {
        self.ends.store(true, Ordering::Relaxed);
        let mut answers: Vec<Answer> =
            self.clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        answers.sort_unstable_by_key(|answer| answer.at);
        answers
    }
}

#[allow(clippy::disallowed_methods, reason = "measures")]
fn client(server: SocketAddr, path: &str, pause: Duration, ends: &AtomicBool) -> Vec<Answer> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {server}\r\n\r\n");
    let mut connection = TcpStream::connect(server).unwrap();
    connection.set_nodelay(true).unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut answers = Vec::new();
    let mut next = Instant::now();
    while !ends.load(Ordering::Relaxed) {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        let at = Instant::now();
        let status = connection.write_all(request.as_bytes()).ok().and_then(|()| status(&mut connection));
        answers.push(Answer { at, took: at.elapsed(), status: status.unwrap_or(0) });
        if status.is_none() {
            break;
        }
        next += pause;
    }
    answers
}

/// Reads one answer to its end.
fn status(connection: &mut TcpStream) -> Option<u16> {
    let (mut text, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let size = connection.read(&mut chunk).ok().filter(|size| *size > 0)?;
        text.extend_from_slice(&chunk[..size]);
        let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&text[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"))?;
        if text.len() >= end + 4 + length.trim().parse::<usize>().ok()? {
            return head.split(' ').nth(1)?.parse().ok();
        }
    }
}
