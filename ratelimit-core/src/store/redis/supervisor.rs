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
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::{ErrorKind, RedisError, RedisResult};
use smallvec::SmallVec;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::command::{Call, Keys, Question};
use super::error::{Failure, Fault};
use super::link::{Link, Shared};
use super::topology::{SLOT_RANGES, Topology, Wire};
use super::{script, server_check};
use crate::error::{ErrorChain, StoreError};

/// A connection that served for so long was a good one; the pauses before the next begin anew.
const PROVED: Duration = Duration::from_secs(5);

impl Shared {
    /// Keeps a connection up, whatever happens.
    pub(super) async fn supervise_for_ever(self: Arc<Self>, topology: Topology) {
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
                tracing::error!(error = %ErrorChain(&cause), "cannot connect to Redis; trying again until it serves");
            } else {
                tracing::debug!(attempt, error = %ErrorChain(&cause), "cannot connect to Redis; trying again");
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
}

/// A connection, and the parts of the slots in which it has decided.
struct Proved {
    wire: Wire,
    ranges: Vec<usize>,
}
