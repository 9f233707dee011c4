//! The connection: made in the background, watched, and made again when it is lost.
//!
//! The client crate's own managers let a request wait while they reconnect, and keep a connection that no longer
//! answers. Here a thread owns a multiplexed connection and every call on it; a request waits for its deadline at most.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::{TcpSettings, socket2};
use redis::{AsyncConnectionConfig, Client, Cmd, RedisError, RedisResult, Value};
use smallvec::SmallVec;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::scripts::Script;
use crate::error::{ConfigError, StoreError};

/// How long an attempt to connect may take. No request waits for it.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// Shortest and longest pause between two attempts to connect, before jitter, which at most doubles it.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// So many calls in a row without an answer mean that the connection is dead, even if nobody closed it.
const TIMEOUTS_UNTIL_LOST: u32 = 3;

/// A handle to the connection; dropping it ends the thread.
pub(super) struct Connection {
    shared: Arc<Shared>,
    runtime: Handle,
    /// Dropped with the handle, which tells the thread to end.
    _stop: oneshot::Sender<()>,
}

struct Shared {
    link: watch::Sender<Link>,
    deadline: Duration,
    timeouts: AtomicU32,
    /// Number of connections made so far; tells an error of an old one from an error of the present one.
    made: AtomicU64,
}

#[derive(Clone)]
enum Link {
    /// An attempt is being made, and the one before did not fail: worth waiting for.
    Connecting,
    Up(MultiplexedConnection, u64),
    /// The last attempt failed: not worth waiting for.
    Down(Arc<RedisError>),
}

/// A small packet is sent at once, and a peer that is gone is noticed even when nothing is sent.
pub(super) fn tcp_settings() -> TcpSettings {
    let keepalive =
        socket2::TcpKeepalive::new().with_time(Duration::from_secs(10)).with_interval(Duration::from_secs(3));
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    let settings = settings.set_user_timeout(Duration::from_secs(2));
    settings
}

impl Connection {
    /// Starts the thread and returns.
    pub(super) fn start(client: Client, deadline: Duration) -> Result<Self, ConfigError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(ConfigError::Thread)?;
        let (link, _) = watch::channel(Link::Connecting);
        let shared =
            Arc::new(Shared { link, deadline, timeouts: AtomicU32::new(0), made: AtomicU64::new(0) });
        let (stop, stopped) = oneshot::channel();
        let handle = runtime.handle().clone();
        let supervised = Arc::clone(&shared);
        runtime.spawn(async move { supervised.supervise(&client).await });
        // The thread ends, and with it all that runs on it, when this handle is dropped.
        let run = move || drop(runtime.block_on(stopped));
        thread::Builder::new().name("ratelimit-redis".to_owned()).spawn(run).map_err(ConfigError::Thread)?;
        Ok(Self { shared, runtime: handle, _stop: stop })
    }

    /// Runs a script.
    pub(super) async fn run(&self, call: Call) -> Result<Value, StoreError> {
        self.ask(Question::Run(call)).await
    }

    /// Removes keys.
    pub(super) async fn delete(&self, keys: Keys) -> Result<(), StoreError> {
        self.ask(Question::Delete(keys)).await.map(drop)
    }

    /// Asks from the connection's own thread, so that the caller needs no particular runtime.
    async fn ask(&self, question: Question) -> Result<Value, StoreError> {
        let shared = Arc::clone(&self.shared);
        let answer = self.runtime.spawn(async move { shared.ask(&question).await });
        answer.await.unwrap_or(Err(StoreError::Unavailable(None)))
    }
}

/// Keys of one call; most have one.
pub(super) type Keys = SmallVec<[String; 2]>;

/// A script to run.
pub(super) struct Call {
    pub(super) script: &'static Script,
    pub(super) keys: Keys,
    pub(super) arguments: Vec<u8>,
}

impl Call {
    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(script).arg(self.keys.len()).arg(&self.keys[..]).arg(&self.arguments);
        command
    }
}

enum Question {
    Run(Call),
    Delete(Keys),
}

impl Question {
    async fn ask(&self, link: &mut MultiplexedConnection) -> RedisResult<Value> {
        match self {
            Self::Delete(keys) => send(link, redis::cmd("DEL").arg(&keys[..])).await,
            Self::Run(call) => {
                match send(link, &call.command("EVALSHA", &call.script.sha)).await {
                    // A script that the server does not know has not run, so this one error may be answered by asking
                    // again. EVAL makes the script known, at whichever node the keys are.
                    Err(error) if error.code() == Some("NOSCRIPT") => {
                        send(link, &call.command("EVAL", &call.script.text)).await
                    }
                    answer => answer,
                }
            }
        }
    }
}

/// Sends one command; the server's errors, which the client hands on as values, become errors.
async fn send(link: &mut MultiplexedConnection, command: &Cmd) -> RedisResult<Value> {
    link.send_packed_command(command).await.and_then(Value::extract_error)
}

impl Shared {
    async fn ask(&self, question: &Question) -> Result<Value, StoreError> {
        let in_time = timeout(self.deadline, async {
            let (mut link, number) = self.link().await?;
            let answer = question.ask(&mut link).await;
            answer.map_err(|error| self.judge(error, number))
        });
        if let Ok(answer) = in_time.await {
            self.timeouts.store(0, Ordering::Relaxed);
            return answer;
        }
        if self.timeouts.fetch_add(1, Ordering::Relaxed) + 1 >= TIMEOUTS_UNTIL_LOST {
            self.lose(self.made.load(Ordering::Relaxed));
        }
        Err(StoreError::Timeout { after: self.deadline })
    }

    /// The connection and its number; waits only while the first attempt after a loss is under way.
    async fn link(&self) -> Result<(MultiplexedConnection, u64), StoreError> {
        let mut link = self.link.subscribe();
        let known = link.wait_for(|link| !matches!(link, Link::Connecting)).await;
        match known.as_deref() {
            Ok(Link::Up(link, number)) => Ok((link.clone(), *number)),
            Ok(Link::Down(error)) => Err(StoreError::Unavailable(Some(Box::new(Arc::clone(error))))),
            Ok(Link::Connecting) | Err(_) => Err(StoreError::Unavailable(None)),
        }
    }

    /// What an error means to the caller, and to the connection.
    fn judge(&self, error: RedisError, number: u64) -> StoreError {
        let lost = error.is_unrecoverable_error() || error.is_io_error();
        // A server that was made a replica stays one; whoever took over is found by connecting again.
        if lost || matches!(error.code(), Some("READONLY" | "NOAUTH")) {
            self.lose(number);
        }
        if lost {
            StoreError::Unavailable(Some(Box::new(error)))
        } else {
            StoreError::Refused(Box::new(error))
        }
    }

    /// Gives up connection `number`, unless another has taken its place.
    fn lose(&self, number: u64) {
        self.timeouts.store(0, Ordering::Relaxed);
        self.link.send_if_modified(|link| {
            let present = matches!(link, Link::Up(_, present) if *present == number);
            if present {
                *link = Link::Connecting;
            }
            present
        });
    }

    /// Keeps a connection up, for ever.
    async fn supervise(&self, client: &Client) {
        let mut link = self.link.subscribe();
        loop {
            let made = self.connect(client).await;
            let number = self.made.fetch_add(1, Ordering::Relaxed) + 1;
            self.link.send_replace(Link::Up(made, number));
            // The sender is `self`, so waiting cannot fail.
            let _ = link.wait_for(|link| !matches!(link, Link::Up(..))).await;
            tracing::warn!("the connection to Redis is lost; connecting again");
        }
    }

    async fn connect(&self, client: &Client) -> MultiplexedConnection {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            // The deadline covers the answer too; this only lets the connection forget a request that nobody awaits.
            .set_response_timeout(Some(self.deadline.saturating_mul(2)));
        let (shortest, longest) = BACKOFF;
        let backoff = ExponentialBuilder::default()
            .with_min_delay(shortest)
            .with_max_delay(longest)
            .without_max_times()
            .with_jitter();
        for (attempt, pause) in (1u64..).zip(backoff.build()) {
            match client.get_multiplexed_async_connection_with_config(&config).await {
                Ok(made) => {
                    tracing::info!(attempt, "connected to Redis");
                    return made;
                }
                Err(error) => {
                    if attempt == 1 {
                        tracing::error!(error = %error, "cannot connect to Redis; trying again until it answers");
                    }
                    self.link.send_replace(Link::Down(Arc::new(error)));
                    tokio::time::sleep(pause).await;
                }
            }
        }
        // Without a maximum of attempts the backoff does not end.
        std::future::pending().await
    }
}
