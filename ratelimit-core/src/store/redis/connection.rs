//! The connection: made in the background, watched, and made again when it no longer serves.
//!
//! The client crate's own managers let a request wait while they reconnect, keep a connection that no longer answers or
//! that was demoted, and never recover from a refused password. Here a thread owns the connection and every call on it:
//!
//! * A request waits for its deadline at most, and never for a connection attempt that follows a failed one.
//! * What fails is counted for each part of the slots of a cluster, of which a single server has one. Where too much
//!   fails in a row, requests fail at once, until a new connection has been made, and to a single server has been proved
//!   by running a script that writes.
//! * Only an answer that proves that nothing ran is answered by asking again: `NOSCRIPT`, and in a cluster `MOVED`, `ASK`
//!   and `TRYAGAIN`. After a timeout nobody knows
//!   whether the request was charged, so it is not repeated.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use redis::{Cmd, ErrorKind, RedisError, RedisResult, Value};
use smallvec::SmallVec;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::batch::{Now, Queues};
use super::fault::{Failure, Fault};
use super::scripts::Script;
use super::startup;
use super::topology::{SLOT_RANGES, Timeouts, Topology, Wire, slot_range};
use super::wire::{Reply, Request};
use crate::error::{ConfigError, StoreError};

/// Shortest and longest pause between two attempts to connect, before jitter, which at most doubles it.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(400));

/// Failures in a row, by weight, after which requests fail at once: three timeouts or five refusals.
const OPEN: u32 = 15;
const TIMEOUT: u32 = 5;
const REFUSAL: u32 = 3;

/// So often an idle connection is tried.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// A connection that served for so long was a good one; the pauses before the next begin anew.
const PROVED: Duration = Duration::from_secs(5);

/// A handle to the connection; dropping it ends the thread.
pub(super) struct Connection {
    shared: Arc<Shared>,
    runtime: Handle,
    queues: Queues,
    /// Dropped with the handle, which tells the thread to end.
    _stop: oneshot::Sender<()>,
}

pub(super) struct Shared {
    link: watch::Sender<Link>,
    /// Whether the link is down.
    is_down: AtomicBool,
    timeouts: Timeouts,
    /// Weight of the failures in a row, for each part of the slots.
    failures: [AtomicU32; SLOT_RANGES],
    /// Number of connections made so far; tells an error of an old one from an error of the present one.
    made: AtomicU64,
    /// A key to write when a new connection is proved.
    probe: String,
    is_cluster: bool,
}

#[derive(Clone)]
enum Link {
    /// An attempt is being made, and the one before did not fail: worth waiting for.
    Connecting,
    Up {
        wire: Wire,
        number: u64,
        /// It answers, but not as it should: to be replaced.
        suspect: bool,
    },
    /// The last attempt failed: not worth waiting for.
    Down(Arc<RedisError>),
}

impl Connection {
    /// Starts the thread and returns. `probe` is a key that may be written.
    pub(super) fn start(
        topology: Topology,
        timeouts: Timeouts,
        probe: String,
        now: &Now,
    ) -> Result<Self, ConfigError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(ConfigError::Thread)?;
        let (link, _) = watch::channel(Link::Connecting);
        let is_cluster = topology.is_cluster();
        let failures = [const { AtomicU32::new(0) }; SLOT_RANGES];
        let shared = Arc::new(Shared {
            link,
            is_down: AtomicBool::new(false),
            timeouts,
            failures,
            made: AtomicU64::new(0),
            probe,
            is_cluster,
        });
        let (stop, stopped) = oneshot::channel();
        let handle = runtime.handle().clone();
        let queues = Queues::start(&shared, &handle, now);
        let supervised = Arc::clone(&shared);
        runtime.spawn(async move { supervised.supervise(topology).await });
        // The thread ends, and with it all that runs on it, when this handle is dropped.
        let run = move || drop(runtime.block_on(stopped));
        thread::Builder::new().name("ratelimit-redis".to_owned()).spawn(run).map_err(ConfigError::Thread)?;
        Ok(Self { shared, runtime: handle, queues, _stop: stop })
    }

    /// Whether the keys of one call have to be on one node.
    pub(super) fn is_cluster(&self) -> bool {
        self.shared.is_cluster
    }

    /// Whether there is a connection.
    pub(super) fn is_up(&self) -> bool {
        matches!(*self.shared.link.borrow(), Link::Up { .. })
    }

    /// Has a group of limits judged, whose keys are on one node.
    pub(super) async fn decide(&self, request: Request) -> Result<Reply, StoreError> {
        self.queues.decide(request).await
    }

    /// The instant that scripts are to believe, in microseconds; 0 is the server's own clock.
    pub(super) fn now(&self) -> u64 {
        self.queues.now()
    }

    /// Runs a script.
    pub(super) async fn run(&self, call: Call) -> Result<Value, StoreError> {
        self.ask(Question::Run(call)).await
    }

    /// Removes keys, which are on one node.
    pub(super) async fn delete(&self, keys: Keys) -> Result<(), StoreError> {
        self.ask(Question::Delete(keys)).await.map(drop)
    }

    /// Asks from the connection's own thread, so that the caller needs no particular runtime.
    async fn ask(&self, question: Question) -> Result<Value, StoreError> {
        // The thread may be busy with connecting, which over TLS takes computing: what is bound to fail does so here.
        let range = self.shared.range(question.keys().first().map(String::as_str));
        if let Some(failure) = self.shared.refusal(range) {
            return Err(failure.into());
        }
        let shared = Arc::clone(&self.shared);
        // From here on, so that waiting for the thread counts as well.
        let deadline = Instant::now() + shared.timeouts.deadline;
        let answer = self.runtime.spawn(async move { shared.ask(&question, range, deadline).await });
        answer.await.unwrap_or(Err(Failure::Unavailable(None))).map_err(StoreError::from)
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

pub(super) enum Question {
    Run(Call),
    Delete(Keys),
}

impl Question {
    fn keys(&self) -> &Keys {
        match self {
            Self::Run(call) => &call.keys,
            Self::Delete(keys) => keys,
        }
    }

    async fn ask(&self, wire: &mut Wire) -> RedisResult<Value> {
        match self {
            Self::Delete(keys) => wire.send(redis::cmd("DEL").arg(&keys[..])).await,
            Self::Run(call) => match wire.send(&call.command("EVALSHA", &call.script.sha)).await {
                // EVAL makes the script known, at whichever node the keys are.
                Err(error) if error.code() == Some("NOSCRIPT") => {
                    wire.send(&call.command("EVAL", &call.script.text)).await
                }
                answer => answer,
            },
        }
    }
}

/// How far a call has come: the number of the connection on which it went out, and when.
#[derive(Default)]
pub(super) struct Progress {
    sent: OnceLock<(u64, Instant)>,
}

impl Shared {
    /// Whether the keys of one call have to be on one node.
    pub(super) const fn is_cluster(&self) -> bool {
        self.is_cluster
    }

    /// How long a decision may take.
    pub(super) const fn deadline(&self) -> Duration {
        self.timeouts.deadline
    }

    /// The part of the slots that a key is in.
    pub(super) fn range(&self, key: Option<&str>) -> usize {
        match key {
            Some(key) if self.is_cluster => slot_range(key),
            _ => 0,
        }
    }

    /// Why there is no use in asking, if so.
    pub(super) fn refusal(&self, range: usize) -> Option<Failure> {
        if self.failures[range].load(Ordering::Relaxed) >= OPEN {
            return Some(Failure::Unavailable(None));
        }
        // Read first: this runs for every request, and the link has a lock.
        if !self.is_down.load(Ordering::Relaxed) {
            return None;
        }
        match &*self.link.borrow() {
            Link::Down(error) => Some(Failure::Unavailable(Some(Arc::clone(error)))),
            Link::Connecting | Link::Up { .. } => None,
        }
    }

    /// Asks, until a deadline.
    async fn ask(&self, question: &Question, range: usize, deadline: Instant) -> Result<Value, Failure> {
        let progress = Progress::default();
        let in_time = timeout_at(deadline, self.call(question, range, &progress)).await;
        in_time.unwrap_or_else(|_| {
            self.late(range, &progress);
            Err(self.too_late())
        })
    }

    /// Asks; whoever awaits this has a deadline.
    pub(super) async fn call(
        &self,
        question: &Question,
        range: usize,
        progress: &Progress,
    ) -> Result<Value, Failure> {
        if let Some(failure) = self.refusal(range) {
            return Err(failure);
        }
        let (mut wire, number) = self.link().await?;
        // Only set here.
        let _ = progress.sent.set((number, Instant::now()));
        let answer = self.ask_until_settled(question, &mut wire).await;
        let value = answer.map_err(|error| self.judge(error, number, range))?;
        // Read first: this runs for every request.
        if self.failures[range].load(Ordering::Relaxed) > 0 {
            self.failures[range].store(0, Ordering::Relaxed);
        }
        Ok(value)
    }

    /// One who waited for a call had no answer by his deadline.
    pub(super) fn late(&self, range: usize, progress: &Progress) {
        // Who came late, or waited for the connection for long, says nothing about it.
        if let Some(&(number, at)) = progress.sent.get()
            && at.elapsed() > self.timeouts.deadline / 2
        {
            self.fail(range, TIMEOUT, number);
        }
    }

    /// What he is told.
    pub(super) const fn too_late(&self) -> Failure {
        Failure::Timeout(self.timeouts.deadline)
    }

    /// Asks, and asks again while the slot is between two nodes of a cluster, which proves each time that nothing ran. The
    /// client follows one redirection after another, but the word that announces it travels apart from the question, so
    /// that somebody else's question may come between and take its place.
    async fn ask_until_settled(&self, question: &Question, wire: &mut Wire) -> RedisResult<Value> {
        let end = Instant::now() + self.timeouts.deadline / 2;
        let mut pause = Duration::from_millis(1);
        loop {
            match question.ask(wire).await {
                Err(error)
                    if self.is_cluster
                        && matches!(error.code(), Some("ASK" | "MOVED" | "TRYAGAIN"))
                        && Instant::now() < end =>
                {
                    sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_millis(8));
                }
                answer => return answer,
            }
        }
    }

    /// The connection and its number; waits only while the first attempt after a loss is under way.
    async fn link(&self) -> Result<(Wire, u64), Failure> {
        let mut link = self.link.subscribe();
        let known = link.wait_for(|link| !matches!(link, Link::Connecting)).await;
        match known.as_deref() {
            Ok(Link::Up { wire, number, .. }) => Ok((wire.clone(), *number)),
            Ok(Link::Down(error)) => Err(Failure::Unavailable(Some(Arc::clone(error)))),
            Ok(Link::Connecting) | Err(_) => Err(Failure::Unavailable(None)),
        }
    }

    /// What an error means to the caller, and to the connection.
    fn judge(&self, error: RedisError, number: u64, range: usize) -> Failure {
        match Fault::of(&error) {
            // A cluster's client mends its connections by itself.
            Fault::Gone if self.is_cluster => self.fail(range, REFUSAL, number),
            Fault::Gone => self.lose(number),
            Fault::Wrong => self.fail(range, OPEN, number),
            Fault::Refusal => self.fail(range, REFUSAL, number),
            Fault::None => return Failure::Refused(Arc::new(error)),
        }
        Failure::Unavailable(Some(Arc::new(error)))
    }

    /// Counts a failure of connection `number`, and asks for another when there were too many in a row.
    fn fail(&self, range: usize, weight: u32, number: u64) {
        // What is left over from an earlier connection says nothing about this one.
        if self.made.load(Ordering::Relaxed) != number {
            return;
        }
        if self.failures[range].fetch_add(weight, Ordering::Relaxed) + weight < OPEN {
            return;
        }
        self.link.send_if_modified(|link| match link {
            Link::Up { number: present, suspect, .. } if *present == number && !*suspect => {
                *suspect = true;
                true
            }
            _ => false,
        });
    }

    /// Gives up connection `number`, unless another has taken its place.
    fn lose(&self, number: u64) {
        self.link.send_if_modified(|link| {
            let present = matches!(link, Link::Up { number: present, .. } if *present == number);
            if present {
                *link = Link::Connecting;
            }
            present
        });
    }

    /// Sends home who waits for a connection, with the reason.
    fn let_nobody_wait(&self, reason: &'static str) {
        self.link.send_if_modified(|link| {
            let waits = matches!(link, Link::Connecting);
            if waits {
                *link = Link::Down(Arc::new(RedisError::from((ErrorKind::Io, reason))));
            }
            waits
        });
        self.is_down.store(matches!(*self.link.borrow(), Link::Down(_)), Ordering::Relaxed);
    }

    /// Keeps a connection up, for ever.
    async fn supervise(&self, mut topology: Topology) {
        let mut link = self.link.subscribe();
        let mut pauses = pauses();
        #[cfg(feature = "metrics")]
        crate::metrics::disconnected();
        loop {
            let wire = self.connect(&mut topology, &mut pauses).await;
            let number = self.made.fetch_add(1, Ordering::Relaxed) + 1;
            let up = Instant::now();
            if number == 1 {
                startup::look(wire.clone()).await;
            }
            for failures in &self.failures {
                failures.store(0, Ordering::Relaxed);
            }
            self.is_down.store(false, Ordering::Relaxed);
            self.link.send_replace(Link::Up { wire: wire.clone(), number, suspect: false });
            #[cfg(feature = "metrics")]
            crate::metrics::connected();
            let mut serves_no_longer =
                pin!(link.wait_for(|link| !matches!(link, Link::Up { suspect: false, .. })));
            // The sender is `self`, so waiting cannot fail.
            while timeout(HEARTBEAT, serves_no_longer.as_mut()).await.is_err() {
                self.beat(wire.clone(), number).await;
            }
            #[cfg(feature = "metrics")]
            crate::metrics::disconnected();
            tracing::warn!("the connection to Redis no longer serves; making another");
            if up.elapsed() > PROVED {
                pauses = self::pauses();
            } else if let Some(pause) = pauses.next() {
                // A connection that fails as soon as it is made, such as one to a cluster of which a part hangs. What is
                // lost is not worth waiting for meanwhile.
                self.let_nobody_wait("the connection was lost, and the next is to be made in a moment");
                sleep(pause).await;
            }
        }
    }

    /// Notices the loss of a connection that nobody uses at the moment. A cluster's client does so itself.
    async fn beat(&self, mut wire: Wire, number: u64) {
        if self.is_cluster {
            return;
        }
        match timeout(self.timeouts.deadline, wire.send(&redis::cmd("PING"))).await {
            Ok(Err(error)) if matches!(Fault::of(&error), Fault::Gone | Fault::Wrong) => {
                self.judge(error, number, 0);
            }
            // That it answers does not mean that it decides, so it takes back no failure.
            Ok(_) => {}
            Err(_) => self.fail(0, TIMEOUT, number),
        }
    }

    /// Tries until a connection serves. Each process has one attempt under way at most.
    async fn connect(&self, topology: &mut Topology, pauses: &mut impl Iterator<Item = Duration>) -> Wire {
        let mut attempt = 0u64;
        loop {
            attempt += 1;
            // Looking up the master and dialling it are two attempts.
            let mut dialled = pin!(timeout(self.timeouts.connect.saturating_mul(2), self.dial(topology)));
            let in_time = timeout(self.timeouts.deadline, dialled.as_mut()).await;
            let dialled = if let Ok(dialled) = in_time {
                dialled
            } else {
                self.let_nobody_wait("connecting takes longer than a decision may");
                dialled.await
            };
            let error = match dialled {
                Ok(Ok(wire)) => {
                    tracing::info!(attempt, "connected to Redis");
                    return wire;
                }
                Ok(Err(error)) => error,
                Err(_) => RedisError::from((ErrorKind::Io, "no answer while connecting")),
            };
            if attempt == 1 {
                tracing::error!(error = %error, "cannot connect to Redis; trying again until it serves");
            }
            self.link.send_replace(Link::Down(Arc::new(error)));
            self.is_down.store(true, Ordering::Relaxed);
            sleep(pauses.next().unwrap_or(BACKOFF.1)).await;
        }
    }

    /// Connects, and makes sure that decisions would work: a server that is loading, demoted, out of memory or hung takes
    /// connections as well.
    async fn dial(&self, topology: &mut Topology) -> RedisResult<Wire> {
        const WRITE: &str = "redis.call('SET', KEYS[1], '', 'PX', 1000) return redis.call('DEL', KEYS[1])";
        let mut wire = topology.connect(self.timeouts).await?;
        if !self.is_cluster {
            let mut probe = redis::cmd("EVAL");
            let answer = wire.send(probe.arg(WRITE).arg(1).arg(&self.probe));
            // A server that takes longer than decisions may wait is no use.
            timeout(self.timeouts.deadline, answer)
                .await
                .map_err(|_| RedisError::from((ErrorKind::Io, "the server answers too late")))??;
        }
        Ok(wire)
    }
}

/// Growing pauses without end.
fn pauses() -> impl Iterator<Item = Duration> {
    let (shortest, longest) = BACKOFF;
    ExponentialBuilder::default()
        .with_min_delay(shortest)
        .with_max_delay(longest)
        .without_max_times()
        .with_jitter()
        .build()
}
