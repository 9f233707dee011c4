//! The state of the connection, which its users and its supervisor share, and what a call makes of it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redis::{ErrorKind, RedisError, RedisResult, Value};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::breaker::Breaker;
use super::command::Question;
use super::error::{Failure, Fault};
use super::timeouts::Timeouts;
use super::topology::{SLOT_RANGES, Wire, slot_range};

pub(super) struct Shared {
    pub(super) link: watch::Sender<Link>,
    /// Whether the link is down.
    pub(super) is_down: AtomicBool,
    pub(super) timeouts: Timeouts,
    pub(super) breaker: Breaker,
    /// Weight of the failures, less that of the answers between them, for each part of the slots.
    pub(super) failures: [AtomicU32; SLOT_RANGES],
    /// Number of connections made so far; tells an error of an old one from an error of the present one.
    pub(super) made: AtomicU64,
    /// A key for each part of the slots, to write when a new connection is proved.
    pub(super) probes: Vec<String>,
    pub(super) is_cluster: bool,
}

#[derive(Clone)]
pub(super) enum Link {
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

/// How far a call has come: the number of the connection on which it went out, and when.
#[derive(Default)]
pub(super) struct Progress {
    sent: OnceLock<(u64, Instant)>,
}

impl Shared {
    pub(super) fn new(is_cluster: bool, timeouts: Timeouts, breaker: Breaker, probes: Vec<String>) -> Self {
        let (link, _) = watch::channel(Link::Connecting);
        Self {
            link,
            is_down: AtomicBool::new(false),
            timeouts,
            breaker,
            failures: [const { AtomicU32::new(0) }; SLOT_RANGES],
            made: AtomicU64::new(0),
            probes,
            is_cluster,
        }
    }

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
    pub(super) fn judge(&self, error: RedisError, number: u64, range: usize) -> Failure {
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
    pub(super) fn fail(&self, range: usize, weight: u32, number: u64) {
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
    pub(super) fn let_nobody_wait(&self, reason: &'static str) {
        self.link.send_if_modified(|link| {
            let waits = matches!(link, Link::Connecting);
            if waits {
                *link = Link::Down(Arc::new(RedisError::from((ErrorKind::Io, reason))));
            }
            waits
        });
        self.is_down.store(matches!(*self.link.borrow(), Link::Down(_)), Ordering::Relaxed);
    }

    /// The parts of the slots of which too much has failed.
    pub(super) fn ranges_out(&self) -> impl Iterator<Item = usize> {
        (0..SLOT_RANGES).filter(|&range| self.breaker.is_open(&self.failures[range]))
    }
}
