//! The handle to the connection, and the thread on which it lives.

use std::pin::pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use redis::Value;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::breaker::Breaker;
use super::command::{Call, Keys, Question};
use super::deadline::Patience;
use super::denial_cache::Forgetting;
use super::error::Failure;
use super::link::{Link, Progress, Shared};
use super::protocol::{Encoder, Request};
use super::queue::{Pending, Queues};
use super::timeouts::Timeouts;
use super::topology::{SLOT_RANGES, Topology, one_for_each_range};
use crate::error::{ConfigError, StoreError};

/// A handle to the connection; dropping it ends the thread.
pub(super) struct Connection {
    shared: Arc<Shared>,
    runtime: Handle,
    queues: Queues,
    /// Dropped with the handle, which tells the thread to end.
    _stop: oneshot::Sender<()>,
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
        let probe = |number| encoder.namer.probe(number);
        let is_cluster = topology.is_cluster();
        let probes = if is_cluster { one_for_each_range(probe) } else { vec![probe(0)] };
        let shared = Arc::new(Shared::new(is_cluster, timeouts, breaker, probes));
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
