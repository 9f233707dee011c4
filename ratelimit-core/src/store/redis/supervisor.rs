//! The supervisor: makes the connection in the background, watches it, and replaces it when it no longer
//! serves.
//!
//! The client crate's own managers let a request wait while they reconnect, keep a connection whose server no
//! longer replies or was demoted, and never recover from a rejected password. Here one thread owns the
//! store's connection, and decides for all lanes whether the server can be used:
//!
//! * A request waits until its deadline at most. It waits for no attempt to connect if the last one failed.
//! * Failures are counted for each slot range of a cluster; a single server is one range. If the circuit
//!   breaker of a range opens, its requests fail at once until a new connection has been made and verified by
//!   a script that writes.

#[cfg(test)]
mod tests;

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::select;
use redis::{ErrorKind, FromRedisValue, RedisError, RedisResult, Value};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::command::Command;
use super::connections::Connections;
use super::error::{ConnectionImpact, SEVERAL_SERVERS};
use super::link::ConnectionState;
use super::server_clock::ClockSample;
use super::shared::Shared;
use super::timeouts::reply_by;
use super::topology::{Found, NodeId, SLOT_RANGES, ServerConnection, Topology, no_node};
use super::{script, server_check};
use crate::error::{ErrorChain, StoreError};
use crate::observe::log::help;
use crate::store::Deadline;
use crate::store::deadline::now;

/// Age from which a lost connection counts as stable, so that the pauses before attempts start anew.
const STABLE_AFTER: Duration = Duration::from_secs(5);

/// Number of the attempt after the loss of a connection whose failure is logged as a warning.
const WARN_AT: u64 = 3;

/// Connections, the slot ranges in which their probe ran, and the clocks of its servers.
struct Verified {
    found: Found,
    ranges: Vec<usize>,
    clocks: Vec<ClockSample>,
}

impl Shared {
    /// Keeps a connection up, and starts again after a panic.
    pub(super) async fn supervise_forever(
        self: Arc<Self>,
        mut topology: Topology,
        connections: Arc<Connections>,
    ) {
        loop {
            // It calls the application's metrics recorder and tracing subscriber, which may panic.
            let _ = AssertUnwindSafe(self.supervise(&mut topology, &connections)).catch_unwind().await;
            self.link.mark_down(Arc::new(RedisError::from((
                ErrorKind::Client,
                "the supervisor of the connection has panicked, and starts again",
            ))));
            sleep(self.link.timeouts.longest_pause).await;
        }
    }

    async fn supervise(self: &Arc<Self>, topology: &mut Topology, connections: &Connections) {
        let mut state = self.link.state.subscribe();
        let mut pauses = self.link.timeouts.pauses();
        self.link.observer.serve(0);
        loop {
            let Verified { found: Found { servers, slots }, ranges, clocks } =
                self.connect(topology, &mut pauses).await;
            let connected = |(node, server): (_, RedisResult<_>)| Some((node, server.ok()?));
            let servers: Vec<_> = servers.into_iter().filter_map(connected).collect();
            // Before lanes see the new generation, by which they connect to the masters anew.
            if let Some(nodes) = &self.link.nodes {
                nodes.note_owners(&slots);
            }
            let generation = self.link.generation.fetch_add(1, Ordering::Relaxed) + 1;
            self.attachments.renew_all();
            connections.install(generation, servers.clone());
            let up = Instant::now();
            // If a part of a cluster is still out, another connection is made to reach it.
            let suspect = self.link.open_ranges().any(|range| !ranges.contains(&range));
            self.link.state.send_replace(ConnectionState::Up { generation, suspect });
            for (range, failures) in self.link.failures.iter().enumerate() {
                self.link.breaker.reset(failures, ranges.contains(&range));
            }
            self.link.observer.open_ranges(self.link.open_ranges());
            self.link.is_down.store(false, Ordering::Relaxed);
            self.attachments.note_connected();
            self.link.observer.connected();
            self.link.observer.serve(1);
            if generation == 1 {
                // Beside the first requests, which need none of it.
                let (servers, shared) = (servers.clone(), Arc::clone(self));
                tokio::spawn(async move {
                    let link = &shared.link;
                    let look = server_check::warn_about_server(&servers, &clocks, &link.durability);
                    let _ = timeout(link.timeouts.connect, look).await;
                });
            }
            let mut serves_no_longer =
                pin!(state.wait_for(|state| !matches!(state, ConnectionState::Up { suspect: false, .. })));
            let single = servers.into_iter().next().filter(|_| !self.link.is_cluster());
            // The sender is `self`, so waiting cannot fail.
            let watch = async {
                while timeout(self.link.timeouts.ping_interval, serves_no_longer.as_mut()).await.is_err() {
                    if let Some((_, server)) = &single {
                        self.ping(server, generation).await;
                    }
                }
            };
            select(pin!(watch), pin!(topology.look_around())).await;
            self.link.observer.serve(0);
            tracing::debug!(
                generation,
                help = help("connected"),
                "the connection to Redis no longer serves; making another"
            );
            if up.elapsed() > STABLE_AFTER {
                pauses = self.link.timeouts.pauses();
            } else if let Some(pause) = pauses.next() {
                // The connection failed soon after it was made, such as one to a cluster of which a part
                // hangs.
                self.link.fail_waiters("the connection was lost; the next attempt follows after a pause");
                sleep(pause).await;
            }
        }
    }

    /// Pings the connection to a single server, so that a loss or a hang is noticed without requests.
    async fn ping(&self, server: &ServerConnection, generation: u64) {
        match reply_by(&mut Deadline::after(self.link.deadline()), server.ping()).await {
            Some(Err(error))
                if matches!(
                    ConnectionImpact::from_error(&error),
                    ConnectionImpact::Lost | ConnectionImpact::WrongServer
                ) =>
            {
                self.link.record_error(error, (generation, None), 0);
            }
            // A reply to PING does not prove that scripts run, so it takes back no failure of the breaker.
            Some(_) => server.note_reply(),
            None => {
                if server.note_silence(self.link.breaker) {
                    self.link.mark_lost(generation);
                }
            }
        }
    }

    /// Connects, and tries again until a connection serves. Each process makes one attempt at a time.
    async fn connect(
        &self,
        topology: &mut Topology,
        pauses: &mut impl Iterator<Item = Duration>,
    ) -> Verified {
        let mut attempt = 0u64;
        let is_first = self.link.generation.load(Ordering::Relaxed) == 0;
        loop {
            attempt += 1;
            // With Sentinel and in a cluster there are two attempts, to find the masters and to connect to
            // them. Each may first wait as long for a look-up, for credentials and for certificates.
            let most = self.link.timeouts.connect.saturating_mul(4);
            let mut connecting = pin!(timeout(most, self.connect_and_verify(topology)));
            let in_time = timeout(self.link.timeouts.deadline, connecting.as_mut()).await;
            let result = if let Ok(result) = in_time {
                result
            } else {
                self.link.fail_waiters("connecting takes longer than a decision may");
                connecting.await
            };
            let failure = match result {
                Ok(Ok(verified)) => {
                    if is_first {
                        tracing::info!(attempt, help = help("connected"), "connected to Redis");
                    } else {
                        tracing::debug!(attempt, help = help("connected"), "connected to Redis");
                    }
                    return verified;
                }
                Ok(Err(failure)) => failure,
                Err(_) => (None, RedisError::from((ErrorKind::Io, "no answer while connecting"))),
            };
            let (node, error) = (failure.0, Arc::new(failure.1));
            let cause = StoreError::from(self.link.connection_error(Arc::clone(&error), node));
            if is_first && attempt == 1 {
                tracing::error!(
                    error = %ErrorChain(&cause),
                    help = help("cannot-connect"),
                    "cannot connect to Redis; trying again until it serves"
                );
            } else if !is_first && attempt == WARN_AT {
                // The errors of requests show the loss. This line says why it lasts.
                tracing::warn!(
                    attempt,
                    error = %ErrorChain(&cause),
                    help = help("cannot-connect"),
                    "cannot connect to Redis; trying again"
                );
            } else {
                tracing::debug!(
                    attempt,
                    error = %ErrorChain(&cause),
                    help = help("cannot-connect"),
                    "cannot connect to Redis; trying again"
                );
            }
            // The other parts of a cluster still serve.
            if !(self.link.is_cluster() && matches!(*self.link.state.borrow(), ConnectionState::Up { .. })) {
                self.link.mark_down(error);
            }
            sleep(pauses.next().unwrap_or(self.link.timeouts.longest_pause)).await;
        }
    }

    /// Connects, and runs a script that writes: a server that is loading, demoted, out of memory or hung
    /// accepts connections as well, and its user may lack permissions.
    ///
    /// If parts of a cluster are out, the script must run in at least one of them: otherwise the new
    /// connection is no better than the old one. An error may be about one node of the cluster.
    async fn connect_and_verify(
        &self,
        topology: &mut Topology,
    ) -> Result<Verified, (Option<NodeId>, RedisError)> {
        let found = topology.connect().await.map_err(|error| (None, error))?;
        let mut ranges: Vec<usize> = self.link.open_ranges().take(self.link.probe_keys.len()).collect();
        if ranges.is_empty() {
            ranges.extend((0..self.link.probe_keys.len()).step_by(SLOT_RANGES / 4));
        }
        let sent_at = now();
        let mut probes = JoinSet::new();
        let mut failure = (None, no_node("no master of the hash slots can be reached"));
        let failed = |range, error: RedisError| {
            let node = self.link.node_of(range);
            self.link.note_cause(range, &self.link.connection_error(Arc::new(error.clone()), node));
            (node, error)
        };
        for range in ranges {
            let all = &self.link.probe_keys;
            let keys = if self.link.is_cluster() { all[range..=range].to_vec() } else { all.clone() };
            let hash_slot = self.link.hash_slot(keys.first().map(String::as_bytes));
            let server = match found.server_of(hash_slot, self.link.nodes.as_deref()) {
                Some(Ok(server)) => server.clone(),
                Some(Err(error)) => {
                    failure = failed(range, error.clone());
                    continue;
                }
                None => continue,
            };
            let deadline = self.link.deadline();
            probes.spawn(async move { (range, probe(&server, &keys, deadline).await) });
        }
        let (mut ranges, mut clocks) = (Vec::new(), Vec::new());
        while let Some(probe) = probes.join_next().await {
            match probe {
                Ok((range, Ok(time))) => {
                    if let Value::Int(time) = time {
                        clocks.push(self.encoder.note_server_time(time.unsigned_abs(), (sent_at, now())));
                    }
                    ranges.push(range);
                }
                Ok((range, Err(error))) => failure = failed(range, error),
                Err(_) => {}
            }
        }
        if ranges.is_empty() { Err(failure) } else { Ok(Verified { found, ranges, clocks }) }
    }
}

/// Runs the script that verifies a connection, and returns its reply.
///
/// A call decides for callers whose keys may be in any hash slots. So a node of a cluster is no single
/// server, even if it has all hash slots; nor is a proxy that sends a script to the server of its first key.
async fn probe(server: &ServerConnection, keys: &[String], timeout: Duration) -> RedisResult<Value> {
    let run = |keys: &[String]| Command::run(script::probe(), keys, &[b""; 0]);
    // First with one key: a server that requires a password says so only to short commands.
    let time = send_within(timeout, server, run(&keys[..1])).await?;
    let others = &keys[1..];
    if others.is_empty() {
        return Ok(time);
    }
    let count = async |command| -> RedisResult<usize> {
        Ok(usize::from_redis_value(send_within(timeout, server, command).await?)?)
    };
    let delete = || Command::delete(others);
    count(run(keys)).await?;
    if count(delete()).await? == others.len() {
        return Ok(time);
    }
    // Some keys were not removed: they are on another server, or have vanished because the server evicts keys
    // or was emptied. If they are on another server, the server of the script finds them again.
    let kept = count(run(keys)).await?;
    count(delete()).await?;
    if kept == 0 { Ok(time) } else { Err(RedisError::from((ErrorKind::Client, SEVERAL_SERVERS))) }
}

/// Sends a command of a probe, and sends a script again as text if the server does not know it. The reply
/// must come within `timeout`.
async fn send_within(
    timeout: Duration,
    server: &ServerConnection,
    mut command: Command,
) -> RedisResult<Value> {
    let sent = async {
        match server.send(command.cmd()).await {
            Err(error) if error.code() == Some("NOSCRIPT") && command.send_text() => {
                server.send(command.cmd()).await
            }
            // The server replied, but is giving the hash slot to another node.
            Err(error) if error.code() == Some("ASK") => Ok(Value::Nil),
            reply => reply,
        }
    };
    let late = || RedisError::from((ErrorKind::Io, "the server answers too late"));
    reply_by(&mut Deadline::after(timeout), sent).await.ok_or_else(late).flatten()
}
