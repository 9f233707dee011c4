//! A Redis server of one's own: on a free loopback port, in a folder of its own, without persistence, ended
//! by its pid.

use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use redis::IntoConnectionInfo;
use redis::io::tcp::TcpSettings;
use tempfile::TempDir;

/// A running server; it ends with this value.
#[derive(Debug)]
pub struct Server {
    port: u16,
    child: Child,
    _folder: TempDir,
}

/// The binary: `REDIS_SERVER` or `redis-server`.
fn binary() -> OsString {
    std::env::var_os("REDIS_SERVER").unwrap_or_else(|| "redis-server".into())
}

/// Whether there is a server to start.
pub fn is_installed() -> bool {
    let version =
        Command::new(binary()).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// A free port; the port 10,000 above, which a cluster uses for its bus, is free as well.
fn free_port() -> u16 {
    static NEXT: LazyLock<AtomicU16> =
        LazyLock::new(|| AtomicU16::new(RandomState::new().hash_one(0u8) as u16));
    loop {
        let port = 11_000 + NEXT.fetch_add(1, Ordering::Relaxed) % 10_000;
        let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if is_free(port) && is_free(port + 10_000) {
            return port;
        }
    }
}

/// A connection to the server at `url`, driven by the runtime it is made in.
///
/// # Panics
///
/// When the server does not answer.
pub async fn connect(url: &str) -> redis::aio::MultiplexedConnection {
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(20)));
    let client =
        redis::Client::open(url.into_connection_info().unwrap().set_tcp_settings(tcp_settings())).unwrap();
    client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
}

/// Sends each piece at once, as ours does: by default the client crate lets a second command wait for the
/// reply to the first.
pub fn tcp_settings() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}

/// Where the server at this port of the machine is.
pub fn url(port: u16) -> String {
    format!("redis://127.0.0.1:{port}/")
}

/// Sends one command to the server at `url`, over a connection of its own.
///
/// # Panics
///
/// When the server does not answer, or not as expected.
pub fn ask<T: redis::FromRedisValue>(url: &str, command: &redis::Cmd) -> T {
    command.query(&mut redis::Client::open(url).unwrap().get_connection().unwrap()).unwrap()
}

/// Whether the server at this port answers.
fn answers(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let mut answer = [0; 5];
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    stream.write_all(b"PING\r\n").is_ok() && stream.read_exact(&mut answer).is_ok() && answer == *b"+PONG"
}

impl Server {
    /// Starts one, with more words on its command line.
    ///
    /// # Panics
    ///
    /// When it cannot be started on any of ten ports.
    pub fn start(options: &[&str]) -> Self {
        let mut tries = (0..10).map(|_| Self::start_once(options));
        tries.find_map(|started| started).expect("redis-server did not start on any of ten ports")
    }

    fn start_once(options: &[&str]) -> Option<Self> {
        let (port, folder) = (free_port(), TempDir::new().unwrap());
        let mut command = Command::new(binary());
        command
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(folder.path())
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut server = Self { port, child: command.spawn().unwrap(), _folder: folder };
        let end = Instant::now() + Duration::from_secs(10);
        while server.child.try_wait().unwrap().is_none() {
            if answers(port) {
                return Some(server);
            }
            assert!(Instant::now() < end, "redis-server neither answers nor ends");
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// Where it is.
    pub fn url(&self) -> String {
        url(self.port)
    }

    /// The port it listens on.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A connection that is driven by the runtime it is made in.
    pub async fn connect(&self) -> redis::aio::MultiplexedConnection {
        connect(&self.url()).await
    }

    /// Sends one command, over a connection of its own.
    pub fn ask<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> T {
        ask(&self.url(), command)
    }

    /// A field of `INFO`.
    pub fn info(&self, section: &str, field: &str) -> Option<String> {
        let text: String = self.ask(redis::cmd("INFO").arg(section));
        let line =
            text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':').map(str::to_owned));
        line.map(|value| value.trim().to_owned())
    }

    /// How often scripts and functions were called.
    pub fn script_calls(&self) -> u64 {
        let text: String = self.ask(redis::cmd("INFO").arg("commandstats"));
        let calls = |line: &str| -> Option<u64> {
            let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(':')?;
            let counts = ["eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"].contains(&command);
            let calls = rest.strip_prefix("calls=")?.split(',').next()?;
            if counts { calls.parse().ok() } else { None }
        };
        text.lines().filter_map(calls).sum()
    }

    /// Forgets everything.
    pub fn flush(&self) {
        let _: () = self.ask(redis::cmd("FLUSHALL").arg("SYNC"));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // By its own pid; it has nothing to save.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
