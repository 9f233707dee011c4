//! A network on one machine: a proxy that hands each piece on later, both ways.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

/// A server that is farther away; the proxy ends with this value and the connections through it.
#[derive(Debug)]
pub struct Distant {
    port: u16,
    has_ended: Arc<AtomicBool>,
}

impl Distant {
    /// Puts the server at this port of the machine this round trip away.
    ///
    /// # Panics
    ///
    /// When no port is free.
    pub fn new(server: u16, round_trip: Duration) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let has_ended = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&has_ended);
        spawn(move || {
            for client in listener.incoming().flatten() {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    to.set_nodelay(true).unwrap();
                    spawn(move || hand_on(from, to, round_trip / 2));
                }
            }
        });
        Self { port, has_ended }
    }

    /// Where the server seems to be.
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Distant {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts connections.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Hands on what comes, each piece so much later, until one side ends.
fn hand_on(mut from: TcpStream, mut to: TcpStream, later: Duration) {
    let (send, pieces) = channel::<(Instant, Vec<u8>)>();
    spawn(move || {
        wake_on_time();
        for (due, bytes) in pieces {
            sleep_until(due);
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if send.send((Instant::now() + later, buffer[..length].to_vec())).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
}

/// Waits for an instant.
pub fn sleep_until(due: Instant) {
    let left = due.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        sleep(left);
    }
}

/// Makes sleeps of this thread exact to 1 µs, where Linux would otherwise let it sleep 50 µs longer. Other
/// systems have no such setting.
pub fn wake_on_time() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1000));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_takes_as_long_as_the_distance_and_ends_with_the_server() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let round_trip = Duration::from_millis(4);
        let distant = Distant::new(listener.local_addr().unwrap().port(), round_trip);
        let server = spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut buffer = [0; 4];
            client.read_exact(&mut buffer).unwrap();
            client.write_all(&buffer).unwrap();
        });
        let mut client = TcpStream::connect(("127.0.0.1", distant.port())).unwrap();
        let (start, mut answer) = (Instant::now(), Vec::new());
        client.write_all(b"PING").unwrap();
        client.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, b"PING");
        assert!(start.elapsed() >= round_trip, "{:?}", start.elapsed());
        server.join().unwrap();
    }
}
