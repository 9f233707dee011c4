//! Real `redis-server` processes: on a free loopback port, in a folder of their own, killed by pid when
//! dropped.

use std::ffi::OsString;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::poll;
use ratelimit_core::clock::FakeClock;
use ratelimit_core::{Algorithm, Check, Policy, RateLimiter, RedisStore, RedisStoreBuilder};
use tempfile::TempDir;

use crate::slots::Slot;

/// Set by `run.sh`: whatever a test lacks is a failure then, not a reason to skip it.
const REQUIRED: &str = "REDIS_REQUIRED";

/// The binary of another server to test with, such as Valkey's; `redis-server` unless set.
const BINARY: &str = "REDIS_SERVER";

/// The server's binary.
pub fn binary() -> OsString {
    std::env::var_os(BINARY).unwrap_or_else(|| "redis-server".into())
}

/// The server's major version, 7 for Redis 7.0.15.
pub fn version() -> u32 {
    static VERSION: LazyLock<u32> = LazyLock::new(|| {
        let output = Command::new(binary()).arg("--version").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.split_once("v=").and_then(|(_, rest)| rest.split_once('.')?.0.parse().ok());
        version.unwrap_or_else(|| panic!("no version in {text}"))
    });
    *VERSION
}

/// Has the server learn the script of every set of algorithms. A script that it does not know yet goes to it
/// a second time, behind what was sent meanwhile.
pub async fn load_scripts(limiter: &RateLimiter) {
    let builder = Policy::builder("known");
    let policies: Vec<Policy> =
        Algorithm::ALL.iter().map(|&algorithm| builder.algorithm(algorithm).build()).collect();
    for set in 1..1 << policies.len() {
        let members = policies.iter().enumerate().filter(|(i, _)| set & (1 << i) != 0);
        let group: Vec<Check<'_>> = members.map(|(_, policy)| Check::new(policy, "known")).collect();
        let _ = limiter.peek_all(&group).await.expect("a healthy server answers");
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    port: u16,
    child: Option<Child>,
    folder: TempDir,
    /// More options for the command line.
    options: Vec<String>,
    /// More variables for its environment.
    variables: Vec<(String, OsString)>,
    /// A folder with what its options name; goes with it.
    owned: Option<PathBuf>,
    _slot: Arc<Slot>,
}

/// Starts a server, or says on the terminal that this test is skipped, and why.
///
/// # Panics
///
/// When there is no `redis-server` and `REDIS_REQUIRED` is set, or it does not answer.
pub fn server() -> Option<Server> {
    is_installed().then(Server::start)
}

/// Starts a server with more options, `--name value ..`, or says that this test is skipped.
pub fn server_with(options: &str) -> Option<Server> {
    let options: Vec<String> = options.split_whitespace().map(str::to_owned).collect();
    is_installed().then(|| Server::start_with(&options))
}

/// Whether there is a `redis-server`; otherwise says on the terminal that this test is skipped, and why.
///
/// # Panics
///
/// When there is none and `REDIS_REQUIRED` is set.
pub fn is_installed() -> bool {
    if Command::new(binary()).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        skip("redis-server on PATH");
        return false;
    }
    true
}

/// Says on the terminal that this test is skipped, and what it needs.
///
/// # Panics
///
/// When `REDIS_REQUIRED` is set: then no test that needs a server may be skipped, whatever it needs besides.
pub fn skip(needs: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    assert!(std::env::var_os(REQUIRED).is_none(), "{test} needs {needs}, and {REQUIRED} is set");
    // Not `eprintln!`, which the test harness captures: a skipped test must be seen.
    let line = format!("skipped: {test} needs {needs}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// A free port; the port 10,000 above, which a cluster uses for its bus, is free as well.
///
/// Both are below the range from which the system takes ports for outgoing connections. Otherwise another
/// process's connection might take the port of a server that is down, and a client that dials it might even
/// be connected to itself.
pub fn free_port() -> u16 {
    static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| {
        #[allow(clippy::cast_possible_truncation, reason = "any number will do")]
        AtomicU16::new(RandomState::new().hash_one(0u8) as u16)
    });
    loop {
        let port = 11_000 + NEXT.fetch_add(1, Ordering::Relaxed) % 10_000;
        let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if claim(port) && is_free(port) && is_free(port + 10_000) {
            return port;
        }
    }
}

/// Keeps other test processes from taking a port while its server is down: until this process ends it is this
/// one's.
fn claim(port: u16) -> bool {
    static CLAIMED: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let folder = std::env::temp_dir().join("ratelimit-test-ports");
    let _ = std::fs::create_dir_all(&folder);
    let Ok(file) = File::create(folder.join(port.to_string())) else { return false };
    let is_ours = file.try_lock().is_ok();
    if is_ours {
        CLAIMED.lock().unwrap_or_else(PoisonError::into_inner).push(file);
    }
    is_ours
}

/// Sends a command, words with blanks between, to the server at `url`, and gives the first line of the
/// answer.
pub fn query(url: &str, command: &str) -> String {
    Console::at(url).query(command)
}

/// Whether `child` listens on `port`. It ends without doing so when another process has the port.
pub(crate) fn comes_up(child: &mut Child, port: u16) -> bool {
    let up = crate::within(Duration::from_secs(60), || {
        child.try_wait().unwrap().is_some() || listens(child.id(), port)
    });
    if !up {
        let _ = child.kill();
    }
    assert!(up, "redis-server neither answers nor ends");
    child.try_wait().unwrap().is_none()
}

/// Whether it is this process that listens on `port`. Another test, of another process, may have taken the
/// same.
fn listens(process: u32, port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    if stream.write_all(b"INFO server\r\n").is_err() {
        return false;
    }
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    let answer = lines.take(100).find(|line| line.starts_with("process_id:") || line.starts_with('-'));
    answer.is_some_and(|line| line == format!("process_id:{process}"))
}

/// What a documented list of permissions is for, by its place on the page.
#[derive(Clone, Copy, Debug)]
pub enum Topology {
    Cluster = 1,
    Sentinel = 2,
}

/// A connection that stays open, for commands by hand.
#[derive(Debug)]
pub struct Console(BufReader<TcpStream>);

impl Console {
    /// Connects to the server at `url`.
    pub fn at(url: &str) -> Self {
        let address = url.trim_start_matches("redis://").trim_end_matches('/');
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self(BufReader::new(stream))
    }

    /// Sends a command, words with blanks between, and gives the first line of the answer.
    pub fn query(&mut self, command: &str) -> String {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
        self.read()
    }

    /// One more line of the answer.
    pub fn read(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The same, for a command that has to succeed.
    pub fn must(&mut self, command: &str) {
        let answer = self.query(command);
        assert!(!answer.starts_with('-'), "{command}: {answer}");
    }
}

/// The first `lines` lines of the answer to `command` at `port`. `None` for an error, and for a server that
/// does not answer within a second: the caller asks again.
pub fn ask(port: u16, command: &str, lines: usize) -> Option<Vec<String>> {
    let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut reader = BufReader::new(stream);
    reader.get_mut().write_all(format!("{command}\r\n").as_bytes()).ok()?;
    let answer: Option<Vec<String>> = reader.lines().take(lines).map(Result::ok).collect();
    answer.filter(|answer| answer.len() == lines)
}

impl Server {
    /// Starts a server with more options.
    pub(crate) fn start_with(options: &[String]) -> Self {
        Self::start_in(options, &[])
    }

    /// Starts a server with more options and variables.
    pub fn start_in(options: &[String], variables: &[(String, OsString)]) -> Self {
        let mut tries = (0..20).map(|_| Self::start_once(options, variables));
        tries.find_map(|started| started).expect("redis-server did not start on any of twenty ports")
    }

    /// Starts a server, if it starts with these options.
    pub fn try_start(options: &[String]) -> Option<Self> {
        Self::start_once(options, &[])
    }

    fn start_once(options: &[String], variables: &[(String, OsString)]) -> Option<Self> {
        let mut server = Self {
            port: free_port(),
            child: None,
            folder: TempDir::new().unwrap(),
            options: options.to_vec(),
            variables: variables.to_vec(),
            owned: None,
            _slot: Slot::of_this_test(),
        };
        server.spawn().then_some(server)
    }

    /// Leaves the server a folder, to be removed with it.
    pub(crate) fn owns(&mut self, folder: PathBuf) {
        self.owned = Some(folder);
    }

    /// The folder that was left to the server.
    pub(crate) fn owned(&self) -> Option<&Path> {
        self.owned.as_deref()
    }

    fn start() -> Self {
        Self::start_with(&[])
    }

    /// Whether the process came up and answers.
    fn spawn(&mut self) -> bool {
        let mut child = self.launch();
        let running = comes_up(&mut child, self.port);
        self.child = Some(child);
        running
    }

    fn launch(&self) -> Child {
        let mut command = Command::new(binary());
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
            // Before version 7 the command is always there.
            .args(if version() < 7 { &[][..] } else { &["--enable-debug-command", "local"] })
            .arg("--dir")
            .arg(self.folder.path())
            .args(&self.options)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().unwrap()
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    /// A connection for commands by hand.
    pub fn console(&self) -> Console {
        Console::at(&self.url())
    }

    /// Sends a command, words with blanks between, and gives the first line of the answer.
    pub fn query(&self, command: &str) -> String {
        query(&self.url(), command)
    }

    /// The same, for a command that has to succeed.
    pub fn must(&self, command: &str) {
        let answer = self.query(command);
        assert!(!answer.starts_with('-'), "{command}: {answer}");
    }

    /// Closes all connections of ordinary clients.
    pub fn kill_clients(&self) {
        self.must("CLIENT KILL TYPE normal SKIPME yes");
    }

    /// Makes the user `limiter` with the password `s3cret` by the documented rules: those for every server,
    /// and those that a topology needs as well.
    pub fn make_documented_user(&self, more: Option<Topology>) {
        let page = include_str!("../../docs/redis.md");
        let lists = page.split("ACL SETUSER limiter ").skip(1);
        let lists: Vec<&str> = lists.map(|list| list.split_once("```").unwrap().0).collect();
        assert_eq!(
            lists.len(),
            3,
            "for every server, for the nodes of a cluster, for servers behind Sentinel"
        );
        for list in [0].into_iter().chain(more.map(|topology| topology as usize)) {
            let rules: Vec<&str> = lists[list].split_whitespace().collect();
            self.must(&format!("ACL SETUSER limiter {}", rules.join(" ")));
        }
    }

    /// A limiter on this server's own clock. Its deadline is long, so that a busy machine fails no test.
    pub fn limiter(&self) -> RateLimiter {
        RateLimiter::new(RedisStore::builder(&self.url()).deadline(Duration::from_secs(10)).build().unwrap())
    }

    /// A limiter whose scripts believe `clock`.
    pub fn limiter_at(&self, clock: &FakeClock) -> RateLimiter {
        RateLimiter::builder(self.store_at(clock)).clock(clock.clone()).build()
    }

    pub fn store_at(&self, clock: &FakeClock) -> RedisStore {
        self.builder_at(clock).build().unwrap()
    }

    /// A limiter without a denial cache: every check goes to the server.
    pub fn uncached_limiter_at(&self, clock: &FakeClock) -> RateLimiter {
        let store = self.builder_at(clock).denial_cache_ttl(Duration::ZERO).build().unwrap();
        RateLimiter::builder(store).clock(clock.clone()).build()
    }

    pub fn builder_at(&self, clock: &FakeClock) -> RedisStoreBuilder {
        RedisStore::builder(&self.url()).deadline(Duration::from_secs(10)).clock(clock.clone())
    }

    /// Awaits requests that share calls. The server stands still until all are sent or queued: if it replied
    /// at once, each could have a call of its own.
    pub async fn join_in_batches<F: Future>(&self, requests: impl IntoIterator<Item = F>) -> Vec<F::Output> {
        self.signal("STOP");
        let mut all = join_all(requests);
        let sent = poll!(&mut all);
        self.signal("CONT");
        match sent {
            Poll::Ready(outputs) => outputs,
            Poll::Pending => all.await,
        }
    }

    /// A number from the server's `INFO`.
    pub async fn info(&self, section: &str, field: &str) -> u64 {
        let text: String = redis::cmd("INFO").arg(section).query_async(&mut self.raw().await).await.unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with(field))
            .unwrap_or_else(|| panic!("no {field} in {text}"));
        let number = line[field.len()..].trim_start_matches([':', '=']);
        number.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
    }

    /// Calls of scripts so far.
    pub async fn script_calls(&self) -> u64 {
        self.info("commandstats", "cmdstat_evalsha:calls").await
    }

    /// Lets keys expire as if so many microseconds passed, also less than none: their times to live change by
    /// as much. A key lives up to a minute longer for each call, because the real time of a test passes as
    /// well.
    pub async fn age_keys(&self, by_us: i64) {
        const AGE: &str = "for _, key in ipairs(redis.call('KEYS', '*')) do
            local left = redis.call('PTTL', key) - ARGV[1]
            if left < -60000 then redis.call('DEL', key) else redis.call('PEXPIRE', key, math.max(left, 60000)) end
        end";
        let mut raw = self.raw().await;
        let () = redis::Script::new(AGE).arg(by_us / 1_000).invoke_async(&mut raw).await.unwrap();
    }

    /// A plain connection, to look at and tamper with what is stored.
    pub async fn raw(&self) -> redis::aio::MultiplexedConnection {
        // The default is half a second, in which a node that writes its configuration to a busy disk may not
        // answer.
        let patient = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(Duration::from_secs(30)))
            .set_response_timeout(Some(Duration::from_secs(30)));
        let client = redis::Client::open(self.url()).unwrap();
        client.get_multiplexed_async_connection_with_config(&patient).await.unwrap()
    }

    /// Ends the process at once, as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Starts again on the same port, and returns before it answers.
    pub fn restart_at_once(&mut self) {
        self.kill();
        self.child = Some(self.launch());
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
        if let Some(folder) = self.owned.take() {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
