//! Real `redis-server` processes: on a free loopback port, in a folder of their own, killed by pid when dropped.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ratelimit_core::clock::FakeClock;
use ratelimit_core::{RateLimiter, RedisStore};
use tempfile::TempDir;

/// Set by `run.sh`: a missing server is a failure then, not a reason to skip.
const REQUIRED: &str = "REDIS_REQUIRED";

/// A running server.
#[derive(Debug)]
pub struct Server {
    port: u16,
    child: Option<Child>,
    folder: TempDir,
    /// More options for the command line.
    options: Vec<String>,
}

/// Starts a server, or says on the terminal that this test is skipped, and why.
///
/// # Panics
///
/// When there is no `redis-server` and `REDIS_REQUIRED` is set, or it does not answer.
pub fn server() -> Option<Server> {
    is_installed().then(Server::start)
}

/// Whether there is a `redis-server`; otherwise says on the terminal that this test is skipped, and why.
///
/// # Panics
///
/// When there is none and `REDIS_REQUIRED` is set.
pub fn is_installed() -> bool {
    if Command::new("redis-server")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_err()
    {
        assert!(std::env::var_os(REQUIRED).is_none(), "redis-server is not on PATH, and {REQUIRED} is set");
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        // Not `eprintln!`, which the test harness captures: a skipped test must be seen.
        let line = format!("skipped: {test} needs redis-server on PATH\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return false;
    }
    true
}

/// A port that nobody listens on, and that leaves room for the bus of a cluster 10,000 above.
pub(crate) fn free_port() -> u16 {
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if port < 55_536 && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok() {
            return port;
        }
    }
}

impl Server {
    /// Starts a server with more options.
    pub(crate) fn start_with(options: &[String]) -> Self {
        for _ in 0..20 {
            let options = options.to_vec();
            let mut server =
                Self { port: free_port(), child: None, folder: TempDir::new().unwrap(), options };
            if server.spawn() {
                return server;
            }
        }
        panic!("redis-server did not start on any of twenty ports");
    }

    fn start() -> Self {
        Self::start_with(&[])
    }

    /// Whether the process came up and answers.
    fn spawn(&mut self) -> bool {
        let mut command = Command::new("redis-server");
        command
            .args([
                "--port",
                &self.port.to_string(),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
            ])
            .args(["--enable-debug-command", "local", "--dir"])
            .arg(self.folder.path())
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let up =
            crate::within(Duration::from_secs(10), || child.try_wait().unwrap().is_some() || self.ping());
        assert!(up, "redis-server neither answers nor ends");
        let running = child.try_wait().unwrap().is_none();
        self.child = Some(child);
        running
    }

    fn ping(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let mut answer = [0; 5];
        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        stream.write_all(b"PING\r\n").is_ok() && stream.read_exact(&mut answer).is_ok() && answer == *b"+PONG"
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    /// A limiter on this server's own clock. Its deadline is long, so that a busy machine fails no test.
    pub fn limiter(&self) -> RateLimiter {
        RateLimiter::with_redis(
            RedisStore::builder(&self.url()).deadline(Duration::from_secs(10)).build().unwrap(),
        )
    }

    /// A limiter whose scripts believe `clock`.
    pub fn limiter_at(&self, clock: &FakeClock) -> RateLimiter {
        RateLimiter::with_redis(self.store_at(clock))
    }

    pub fn store_at(&self, clock: &FakeClock) -> RedisStore {
        let builder = RedisStore::builder(&self.url()).deadline(Duration::from_secs(10));
        builder.clock(clock.clone()).build().unwrap()
    }

    /// A plain connection, to look at and tamper with what is stored.
    pub async fn raw(&self) -> redis::aio::MultiplexedConnection {
        redis::Client::open(self.url()).unwrap().get_multiplexed_async_connection().await.unwrap()
    }

    /// Ends the process at once, as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Starts again, empty, on the same port.
    pub fn restart(&mut self) {
        self.kill();
        assert!(self.spawn(), "the port was taken meanwhile");
    }

    /// Stops (`STOP`) or continues (`CONT`) the process without ending it.
    pub fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().expect("the server runs").id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
