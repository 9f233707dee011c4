//! The connection's state, which requests and the supervisor share, and the failures that calls record.
//!
//! A command is sent again only if its reply says that nothing ran: `NOSCRIPT`, and in a cluster `MOVED`,
//! `ASK`, `TRYAGAIN`, `CLUSTERDOWN` and `READONLY`. After a timeout, or if the connection is lost before the
//! reply, it is unknown whether the request was charged, so it is not sent again.

#[cfg(test)]
pub(super) mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::{ErrorKind, RedisError};
use tokio::sync::watch;

use super::breaker::Breaker;
use super::error::{ALL_SLOTS, CallError, ConnectionImpact, meaning};
use super::server_check::Durability;
use super::timeouts::Timeouts;
use super::topology::{NodeId, Nodes, SLOT_RANGES, first_slot, hash_slot_of_key};
use crate::observe::StoreObserver;

/// State that requests and the supervisor share.
pub(super) struct Link {
    pub(super) state: watch::Sender<ConnectionState>,
    /// Whether `state` is `Down`.
    pub(super) is_down: AtomicBool,
    pub(super) timeouts: Timeouts,
    pub(super) breaker: Breaker,
    /// Weight of the failures less the weight of the replies, for each slot range.
    pub(super) failures: [AtomicU32; SLOT_RANGES],
    /// The last failure in each slot range: of a call, or of an attempt to connect.
    causes: [Mutex<Option<CallError>>; SLOT_RANGES],
    /// Generation of the present connection: number of connections made so far.
    pub(super) generation: AtomicU64,
    /// Keys that the probe of a new connection writes: a key in each slot range of a cluster, or several keys
    /// that a single server must have together.
    pub(super) probe_keys: Vec<String>,
    /// The masters of a cluster.
    pub(super) nodes: Option<Arc<Nodes>>,
    pub(super) observer: StoreObserver,
    pub(super) durability: Durability,
}

/// State of the connection.
#[derive(Clone)]
pub(super) enum ConnectionState {
    /// An attempt is being made, and the attempt before it did not fail: requests wait for it.
    Connecting,
    Up {
        generation: u64,
        /// Whether it fails too often, so that another connection is being made.
        suspect: bool,
    },
    /// The last attempt failed: requests do not wait for the next.
    Down(Arc<RedisError>),
}

impl Link {
    pub(super) fn new(
        nodes: Option<Arc<Nodes>>,
        timeouts: Timeouts,
        breaker: Breaker,
        probe_keys: Vec<String>,
    ) -> Self {
        let (state, _) = watch::channel(ConnectionState::Connecting);
        Self {
            state,
            is_down: AtomicBool::new(false),
            timeouts,
            breaker,
            failures: [const { AtomicU32::new(0) }; SLOT_RANGES],
            causes: [const { Mutex::new(None) }; SLOT_RANGES],
            generation: AtomicU64::new(0),
            probe_keys,
            nodes,
            observer: StoreObserver::default(),
            durability: Durability::default(),
        }
    }

    /// Whether the keys of one call must be on one node.
    pub(super) const fn is_cluster(&self) -> bool {
        self.nodes.is_some()
    }

    /// Whether there is a connection that serves; a part of a cluster may be out.
    pub(super) fn is_up(&self) -> bool {
        match *self.state.borrow() {
            ConnectionState::Up { suspect: true, .. } => {
                self.is_cluster() && self.open_ranges().count() < SLOT_RANGES
            }
            ConnectionState::Up { suspect: false, .. } => true,
            ConnectionState::Connecting | ConnectionState::Down(_) => false,
        }
    }

    /// Longest time for a decision.
    pub(super) const fn deadline(&self) -> Duration {
        self.timeouts.deadline
    }

    /// The hash slot of a command's first key. Without a cluster all keys count as in hash slot 0.
    pub(super) fn hash_slot(&self, key: Option<&[u8]>) -> u16 {
        match key {
            Some(key) if self.is_cluster() => hash_slot_of_key(key),
            _ => 0,
        }
    }

    /// Slot ranges whose circuit breaker is open.
    pub(super) fn open_ranges(&self) -> impl Iterator<Item = usize> {
        (0..SLOT_RANGES).filter(|&range| self.breaker.is_open(&self.failures[range]))
    }

    /// The error of a request that would fail anyway: the circuit breaker is open, or the connection is down.
    pub(super) fn fast_fail(&self, range: usize) -> Option<CallError> {
        // A load first, because this runs for every request, and the state has a lock.
        if self.is_down.load(Ordering::Relaxed)
            && let ConnectionState::Down(error) = &*self.state.borrow()
        {
            return Some(self.connection_error(Arc::clone(error), None));
        }
        let is_open = self.breaker.is_open(&self.failures[range]);
        is_open.then(|| self.causes[range].lock().clone().unwrap_or(CallError::Unavailable))
    }

    /// Records that a call got its reply.
    pub(super) fn record_reply(&self, range: usize) {
        self.breaker.record_reply(&self.failures[range]);
    }

    /// The present generation of the connection.
    pub(super) fn present_generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// The server that has the keys of a hash slot, if it is known.
    pub(super) fn owner(&self, hash_slot: u16) -> Option<NodeId> {
        self.nodes.as_ref().map_or(Some(NodeId::SINGLE), |nodes| nodes.owner(hash_slot))
    }

    /// Waits until there is a connection, but only while the first attempt after a loss is being made.
    pub(super) async fn connected(&self) -> Result<(), CallError> {
        // A wait begins with a subscription, which nearly no flush needs.
        if let ConnectionState::Up { .. } = *self.state.borrow() {
            return Ok(());
        }
        let mut state = self.state.subscribe();
        let known = state.wait_for(|state| !matches!(state, ConnectionState::Connecting)).await;
        match known.as_deref() {
            Ok(ConnectionState::Up { .. }) => Ok(()),
            Ok(ConnectionState::Down(error)) => Err(self.connection_error(Arc::clone(error), None)),
            Ok(ConnectionState::Connecting) | Err(_) => Err(CallError::Unavailable),
        }
    }

    /// The node of a cluster that has the first hash slot of a range.
    pub(super) fn node_of(&self, range: usize) -> Option<NodeId> {
        self.owner(first_slot(range))
    }

    /// The error of a call if its connection or server cannot serve. `node` is the one that it is about, if
    /// it is one of a cluster.
    pub(super) fn connection_error(&self, error: Arc<RedisError>, node: Option<NodeId>) -> CallError {
        let slots = |nodes: &Arc<Nodes>| node.map_or(ALL_SLOTS, |node| nodes.slots_of(node));
        CallError::Connection { error, slots: self.nodes.as_ref().map(slots) }
    }

    /// The error of a call to a node, without recording its effect on the connection.
    pub(super) fn call_error(&self, error: impl Into<Arc<RedisError>>, node: Option<NodeId>) -> CallError {
        let error = error.into();
        match ConnectionImpact::from_error(&error) {
            ConnectionImpact::Unknown | ConnectionImpact::None => CallError::Rejected(error),
            _ => self.connection_error(error, node),
        }
    }

    /// Records the effect of an error on the connection of this generation to `node`, if it is known. Returns
    /// the error of the call.
    pub(super) fn record_error(
        &self,
        error: RedisError,
        (generation, node): (u64, Option<NodeId>),
        range: usize,
    ) -> CallError {
        let weight = match ConnectionImpact::from_error(&error) {
            // The other masters of a cluster still serve.
            ConnectionImpact::Lost if self.is_cluster() => self.breaker.error_weight(),
            ConnectionImpact::Lost => {
                self.mark_lost(generation);
                return self.connection_error(Arc::new(error), None);
            }
            ConnectionImpact::WrongServer => self.breaker.threshold(),
            ConnectionImpact::CannotServe | ConnectionImpact::Unknown => self.breaker.error_weight(),
            ConnectionImpact::None => return self.call_error(error, None),
        };
        let (error, node) = (Arc::new(error), node.or_else(|| self.node_of(range)));
        self.record_failure(range, weight, generation, &self.connection_error(Arc::clone(&error), node));
        self.call_error(error, node)
    }

    /// Counts a call without a reply as a failure of its connection, to `node` if it is known.
    pub(super) fn record_timeout(&self, range: usize, (generation, node): (u64, Option<NodeId>)) {
        let cause = RedisError::from((ErrorKind::Io, "calls get no reply in time"));
        let cause = self.connection_error(Arc::new(cause), node.or_else(|| self.node_of(range)));
        self.record_failure(range, self.breaker.timeout_weight(), generation, &cause);
    }

    /// Notes why requests of a slot range fail while its circuit breaker is open.
    pub(super) fn note_cause(&self, range: usize, cause: &CallError) {
        *self.causes[range].lock() = Some(cause.clone());
    }

    /// Counts a failure of a connection, and marks the connection as suspect if the circuit breaker opened.
    fn record_failure(&self, range: usize, weight: u32, generation: u64, cause: &CallError) {
        // An error of an earlier connection says nothing about this one.
        if self.generation.load(Ordering::Relaxed) != generation {
            return;
        }
        // Before the breaker may open: the request that finds it open may log the cause.
        self.note_cause(range, cause);
        if !self.breaker.record_failure(&self.failures[range], weight) {
            return;
        }
        self.state.send_if_modified(|state| match state {
            ConnectionState::Up { generation: present, suspect, .. }
                if *present == generation && !*suspect =>
            {
                *suspect = true;
                true
            }
            _ => false,
        });
        self.observer.open_ranges(self.open_ranges());
    }

    /// Gives up the store's lost connection, unless another has taken its place.
    pub(super) fn mark_lost(&self, generation: u64) {
        self.state.send_if_modified(|state| {
            let is_present =
                matches!(state, ConnectionState::Up { generation: present, .. } if *present == generation);
            if is_present {
                *state = ConnectionState::Connecting;
            }
            is_present
        });
    }

    /// Fails all requests that are waiting for a connection.
    pub(super) fn fail_waiters(&self, reason: &'static str) {
        self.state.send_if_modified(|state| {
            let is_connecting = matches!(state, ConnectionState::Connecting);
            if is_connecting {
                *state = ConnectionState::Down(Arc::new(RedisError::from((ErrorKind::Io, reason))));
            }
            is_connecting
        });
        self.is_down.store(matches!(*self.state.borrow(), ConnectionState::Down(_)), Ordering::Relaxed);
    }

    /// Marks the connection as down, because an attempt failed.
    pub(super) fn mark_down(&self, error: Arc<RedisError>) {
        self.state.send_replace(ConnectionState::Down(error));
        self.is_down.store(true, Ordering::Relaxed);
    }
}

/// Whether an error of a cluster proves that the command did not run, and that another node or a later moment
/// may serve it.
pub(super) fn is_redirect(error: &RedisError) -> bool {
    matches!(meaning(error), Some("ASK" | "MOVED" | "TRYAGAIN" | "CLUSTERDOWN" | "READONLY"))
}
