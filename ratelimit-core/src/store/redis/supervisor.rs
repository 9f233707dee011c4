//! The connection: made in the background, watched, and made again when it no longer serves.
//!
//! The client crate's own managers let a request wait while they reconnect, keep a connection that no longer answers or
//! that was demoted, and never recover from a refused password. Here a thread owns the connection and every call on it:
//!
//! * A request waits for its deadline at most, and never for a connection attempt that follows a failed one.
//! * What fails is counted for each part of the slots of a cluster, of which a single server has one. Where too much
//!   fails in a row, requests fail at once, until a new connection has been made, and to a single server has been proved
//!   by running a script that writes.
//! * Only an answer that proves that nothing ran is answered by asking again: `NOSCRIPT`, and in a cluster `MOVED`, `ASK`,
//!   `TRYAGAIN`, `CLUSTERDOWN` and `READONLY`. After a timeout, or when the connection is lost before the answer, nobody
//!   knows whether the request was charged, so it is not repeated.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use redis::{Cmd, ErrorKind, RedisError, RedisResult, Value};
use smallvec::SmallVec;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Mutex, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::denial_cache::Forgetting;
use super::error::{Failure, Fault};
use super::protocol::{Encoder, Request};
use super::queue::{Patience, Pending, Queues};
use super::script::{self, Script};
use super::server_check;
use super::timeouts::{Breaker, Timeouts};
use super::topology::{SLOT_RANGES, Topology, Wire, slot_range};
use crate::error::{ConfigError, StoreError};
use crate::fallback::Chain;

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
    breaker: Breaker,
    /// Weight of the failures, less that of the answers between them, for each part of the slots.
    failures: [AtomicU32; SLOT_RANGES],
    /// Number of connections made so far; tells an error of an old one from an error of the present one.
    made: AtomicU64,
    /// A key for each part of the slots, to write when a new connection is proved.
    probes: Vec<String>,
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
    /// Starts the thread and returns.
    pub(super) fn start(
        topology: Topology,
        timeouts: Timeouts,
        breaker: Breaker,
        encoder: &Arc<Encoder>,
    ) -> Result<Self, ConfigError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(ConfigError::Thread)?;
        let (link, _) = watch::channel(Link::Connecting);
        let is_cluster = topology.is_cluster();
        let failures = [const { AtomicU32::new(0) }; SLOT_RANGES];
        let probe = |number| encoder.namer.probe(number);
        let shared = Arc::new(Shared {
            link,
            is_down: AtomicBool::new(false),
            timeouts,
            breaker,
            failures,
            made: AtomicU64::new(0),
            probes: if is_cluster { one_for_each_range(probe) } else { vec![probe(0)] },
            is_cluster,
        });
        let (stop, stopped) = oneshot::channel();
        let handle = runtime.handle().clone();
        let queues = Queues::start(&shared, &handle, encoder);
        let supervised = Arc::clone(&shared);
        runtime.spawn(supervised.supervise_for_ever(topology));
        // The thread ends, and with it all that runs on it, when this handle is dropped.
        let run = move || drop(runtime.block_on(stopped));
        thread::Builder::new().name("ratelimit-redis".to_owned()).spawn(run).map_err(ConfigError::Thread)?;
        Ok(Self { shared, runtime: handle, queues, _stop: stop })
    }

    /// Whether the keys of one call have to be on one node.
    pub(super) fn is_cluster(&self) -> bool {
        self.shared.is_cluster
    }

    /// Whether there is a connection that serves; of a cluster a part may be out.
    pub(super) fn is_up(&self) -> bool {
        match *self.shared.link.borrow() {
            Link::Up { suspect: true, .. } => {
                self.is_cluster() && self.shared.ranges_out().count() < SLOT_RANGES
            }
            Link::Up { suspect: false, .. } => true,
            Link::Connecting | Link::Down(_) => false,
        }
    }

    /// Queues a group of limits, whose keys are on one node.
    pub(super) fn submit(&self, request: Request, patience: Patience) -> Pending {
        self.queues.submit(request, patience)
    }

    /// Runs a script; see [`send`](Self::send).
    pub(super) fn run(&self, call: Call, patience: Patience, guard: Forgetting) -> Started {
        self.send(Question::Run(call), patience, guard)
    }

    /// Removes keys, which are on one node; see [`send`](Self::send).
    pub(super) fn delete(&self, keys: Keys, patience: Patience, guard: Forgetting) -> Started {
        self.send(Question::Delete(keys), patience, guard)
    }

    /// How long a decision may take.
    pub(super) fn deadline(&self) -> Duration {
        self.shared.deadline()
    }

    /// Sends a command from the connection's own thread, so that the caller needs no particular runtime.
    ///
    /// The result waits as long as the request does. The command goes on without it, for the deadline of a decision, so that
    /// a refund does not depend on how much time is left to the request; `guard` is dropped at its end.
    fn send(&self, question: Question, patience: Patience, guard: Forgetting) -> Started {
        let (tell, told) = oneshot::channel();
        let range = self.shared.range(question.keys().first().map(String::as_str));
        // The thread may be busy with connecting, which over TLS takes computing: what is bound to fail does so here.
        if let Some(failure) = self.shared.refusal(range) {
            let _ = tell.send(Err(failure));
            return Started(told);
        }
        let shared = Arc::clone(&self.shared);
        // From here on, so that waiting for the thread counts as well.
        let deadline = Instant::now() + shared.timeouts.deadline;
        self.runtime.spawn(async move {
            let progress = Progress::default();
            let mut call = pin!(shared.call(&question, range, &progress));
            if let Ok(answer) = timeout_at(patience.until(), call.as_mut()).await {
                // First, so that the caller sees what it has changed.
                drop(guard);
                let _ = tell.send(answer);
                return;
            }
            let is_noted = shared.late(range, &progress);
            let _ = tell.send(Err(patience.too_late()));
            if timeout_at(deadline, call).await.is_err() && !is_noted {
                shared.late(range, &progress);
            }
            drop(guard);
        });
        Started(told)
    }
}

/// The answer to come of a command that was sent.
pub(super) struct Started(oneshot::Receiver<Result<Value, Failure>>);

impl Started {
    pub(super) async fn answer(self) -> Result<(), StoreError> {
        self.0.await.unwrap_or(Err(Failure::Unavailable)).map(drop).map_err(StoreError::from)
    }
}

/// Keys of one call; most have one.
pub(super) type Keys = SmallVec<[String; 2]>;

/// A script to run.
pub(super) struct Call {
    pub(super) script: &'static Script,
    pub(super) keys: Keys,
    pub(super) arguments: SmallVec<[Vec<u8>; 2]>,
}

impl Call {
    fn command(&self, name: &str, script: &str) -> Cmd {
        let strings = self.keys.iter().map(String::len).chain(self.arguments.iter().map(Vec::len));
        let (count, size) = strings.fold((0, 0), |(count, size), length| (count + 1, size + length));
        // All at once, instead of growing with each key.
        let mut command = Cmd::with_capacity(3 + count, 64 + script.len() + size);
        command.arg(name).arg(script).arg(self.keys.len()).arg(&self.keys[..]);
        for argument in &self.arguments {
            command.arg(argument);
        }
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
            Self::Delete(keys) => wire.send(redis::cmd("UNLINK").arg(&keys[..])).await,
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
        if self.breaker.is_open(&self.failures[range]) {
            return Some(Failure::Unavailable);
        }
        // Read first: this runs for every request, and the link has a lock.
        if !self.is_down.load(Ordering::Relaxed) {
            return None;
        }
        match &*self.link.borrow() {
            Link::Down(error) => Some(Failure::Fault(Arc::clone(error), self.is_cluster)),
            Link::Connecting | Link::Up { .. } => None,
        }
    }

    /// Sends a command; the caller gives up at its deadline.
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
        self.breaker.answered(&self.failures[range]);
        Ok(value)
    }

    /// Records that a request hit its deadline. Returns true if the connection is to blame: the call had been in flight for
    /// more than half of the store's deadline.
    pub(super) fn late(&self, range: usize, progress: &Progress) -> bool {
        match progress.sent.get() {
            Some(&(number, at)) if at.elapsed() > self.timeouts.deadline / 2 => {
                self.fail(range, self.breaker.timeout(), number);
                true
            }
            _ => false,
        }
    }

    /// Asks, and asks again while the slot is between two nodes of a cluster, which proves each time that nothing ran.
    async fn ask_until_settled(&self, question: &Question, wire: &mut Wire) -> RedisResult<Value> {
        let end = Instant::now() + self.timeouts.deadline / 2;
        let mut pause = Duration::from_millis(1);
        loop {
            match question.ask(wire).await {
                Err(error)
                    if self.is_cluster
                        && matches!(
                            error.code(),
                            Some("ASK" | "MOVED" | "TRYAGAIN" | "CLUSTERDOWN" | "READONLY")
                        )
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
            Ok(Link::Down(error)) => Err(Failure::Fault(Arc::clone(error), self.is_cluster)),
            Ok(Link::Connecting) | Err(_) => Err(Failure::Unavailable),
        }
    }

    /// What an error means to the caller, and to the connection.
    fn judge(&self, error: RedisError, number: u64, range: usize) -> Failure {
        match Fault::of(&error) {
            // A cluster's client mends its connections by itself.
            Fault::Gone if self.is_cluster => self.fail(range, self.breaker.refusal(), number),
            Fault::Gone => self.lose(number),
            Fault::Wrong => self.fail(range, self.breaker.threshold(), number),
            Fault::Refusal => self.fail(range, self.breaker.refusal(), number),
            Fault::None => return Failure::Refused(Arc::new(error)),
        }
        Failure::Fault(Arc::new(error), self.is_cluster)
    }

    /// Counts a failure of connection `number`, and asks for another when there were too many.
    fn fail(&self, range: usize, weight: u32, number: u64) {
        // What is left over from an earlier connection says nothing about this one.
        if self.made.load(Ordering::Relaxed) != number {
            return;
        }
        if !self.breaker.failed(&self.failures[range], weight) {
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

    /// Keeps a connection up, whatever happens.
    async fn supervise_for_ever(self: Arc<Self>, topology: Topology) {
        let topology = Arc::new(Mutex::new(topology));
        loop {
            let (shared, topology) = (Arc::clone(&self), Arc::clone(&topology));
            let supervision =
                tokio::spawn(async move { shared.supervise(&mut *topology.lock().await).await });
            // It calls the application's recorder of metrics and its subscriber to events, and these may panic.
            let _ = supervision.await;
            self.is_down.store(true, Ordering::Relaxed);
            self.link.send_replace(Link::Down(Arc::new(RedisError::from((
                ErrorKind::Client,
                "what kept up the connection has panicked, and begins again",
            )))));
            sleep(self.timeouts.longest_pause).await;
        }
    }

    async fn supervise(&self, topology: &mut Topology) {
        let mut link = self.link.subscribe();
        let mut pauses = self.timeouts.pauses();
        #[cfg(feature = "metrics")]
        crate::metrics::disconnected();
        loop {
            let Proved { wire, ranges } = self.connect(topology, &mut pauses).await;
            let number = self.made.fetch_add(1, Ordering::Relaxed) + 1;
            let up = Instant::now();
            if number == 1 {
                server_check::look(wire.clone()).await;
            }
            // A part of a cluster that is still out stays so, and the next connection is for its sake.
            let suspect = self.ranges_out().any(|range| !ranges.contains(&range));
            self.link.send_replace(Link::Up { wire: wire.clone(), number, suspect });
            for (range, failures) in self.failures.iter().enumerate() {
                self.breaker.begin_anew(failures, ranges.contains(&range));
            }
            self.is_down.store(false, Ordering::Relaxed);
            #[cfg(feature = "metrics")]
            crate::metrics::connected();
            let mut serves_no_longer =
                pin!(link.wait_for(|link| !matches!(link, Link::Up { suspect: false, .. })));
            // The sender is `self`, so waiting cannot fail.
            while timeout(self.timeouts.heartbeat, serves_no_longer.as_mut()).await.is_err() {
                self.beat(wire.clone(), number).await;
            }
            #[cfg(feature = "metrics")]
            crate::metrics::disconnected();
            tracing::debug!(number, "the connection to Redis no longer serves; making another");
            if up.elapsed() > PROVED {
                pauses = self.timeouts.pauses();
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
            Err(_) => self.fail(0, self.breaker.timeout(), number),
        }
    }

    /// Tries until a connection serves. Each process has one attempt under way at most.
    async fn connect(&self, topology: &mut Topology, pauses: &mut impl Iterator<Item = Duration>) -> Proved {
        let mut attempt = 0u64;
        // Later connections are part of an outage, which is logged by what happens to requests.
        let is_first = self.made.load(Ordering::Relaxed) == 0;
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
                Ok(Ok(proved)) => {
                    if is_first {
                        tracing::info!(attempt, "connected to Redis");
                    } else {
                        tracing::debug!(attempt, "connected to Redis");
                    }
                    return proved;
                }
                Ok(Err(error)) => error,
                Err(_) => RedisError::from((ErrorKind::Io, "no answer while connecting")),
            };
            let error = Arc::new(error);
            let cause = StoreError::from(Failure::Fault(Arc::clone(&error), self.is_cluster));
            if is_first && attempt == 1 {
                tracing::error!(error = %Chain(&cause), "cannot connect to Redis; trying again until it serves");
            } else {
                tracing::debug!(attempt, error = %Chain(&cause), "cannot connect to Redis; trying again");
            }
            // What is left of a cluster goes on serving meanwhile.
            if !(self.is_cluster && matches!(*self.link.borrow(), Link::Up { .. })) {
                self.link.send_replace(Link::Down(error));
                self.is_down.store(true, Ordering::Relaxed);
            }
            sleep(pauses.next().unwrap_or(self.timeouts.longest_pause)).await;
        }
    }

    /// Connects, and makes sure that decisions would work: a server that is loading, demoted, out of memory or hung takes
    /// connections as well, and one that knows us may not let us do all that is needed.
    ///
    /// Of a cluster of which parts are out, one of them has to work: with less the new connection is no better, and asking
    /// a node that hangs for its slots would hold up what is asked of the others.
    async fn dial(&self, topology: &mut Topology) -> RedisResult<Proved> {
        let wire = topology.connect(self.timeouts).await?;
        let mut tried: Vec<usize> = self.ranges_out().take(self.probes.len()).collect();
        if tried.is_empty() {
            tried.extend((0..self.probes.len()).step_by(SLOT_RANGES / 4));
        }
        let mut proofs = JoinSet::new();
        for range in tried {
            let (mut wire, deadline) = (wire.clone(), self.timeouts.deadline);
            let keys = Keys::from_iter([self.probes[range].clone()]);
            let probe = Question::Run(Call { script: script::probe(), keys, arguments: SmallVec::new() });
            proofs.spawn(async move {
                // A server that takes longer than decisions may wait is no use.
                let late = |_| RedisError::from((ErrorKind::Io, "the server answers too late"));
                (range, timeout(deadline, probe.ask(&mut wire)).await.map_err(late).flatten())
            });
        }
        let mut ranges = Vec::new();
        let mut failure = RedisError::from((ErrorKind::Client, "the proof of the connection has panicked"));
        while let Some(proof) = proofs.join_next().await {
            match proof {
                Ok((range, Ok(_))) => ranges.push(range),
                Ok((_, Err(error))) => failure = error,
                Err(_) => {}
            }
        }
        if ranges.is_empty() { Err(failure) } else { Ok(Proved { wire, ranges }) }
    }

    /// The parts of the slots of which too much has failed.
    fn ranges_out(&self) -> impl Iterator<Item = usize> {
        (0..SLOT_RANGES).filter(|&range| self.breaker.is_open(&self.failures[range]))
    }
}

/// A connection, and the parts of the slots in which it has decided.
struct Proved {
    wire: Wire,
    ranges: Vec<usize>,
}

/// A key in each part of the slots, of those that `key` makes of numbers.
fn one_for_each_range(key: impl Fn(u32) -> String) -> Vec<String> {
    let mut found = vec![String::new(); SLOT_RANGES];
    let mut missing = SLOT_RANGES;
    for key in (0..).map(key) {
        let place = &mut found[slot_range(&key)];
        if place.is_empty() {
            *place = key;
            missing -= 1;
        }
        if missing == 0 {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_key_in_each_part_of_the_slots() {
        let keys = one_for_each_range(|i| format!("rl1:probe:{i}"));
        assert_eq!(keys.len(), SLOT_RANGES);
        for (range, key) in keys.iter().enumerate() {
            assert_eq!(slot_range(key), range, "{key}");
        }
    }
}
