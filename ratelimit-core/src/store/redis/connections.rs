//! The connections of one lane: one to the single server, or one to each master of a cluster. They live on
//! the lane's runtime.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use redis::{RedisError, RedisResult};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::error::{is_lost, lacks_command};
use super::shared::Shared;
use super::timeouts::reply_within;
use super::topology::{Connection, ConnectionId, NodeId, RETRY_INTERVAL, Server, ServerConnection};
use crate::error::{ErrorChain, StoreError};
use crate::observe::log::help;
use crate::store::deadline::now;

/// A connection that lived for longer was a good one, and another is made at once.
const STABLE_AFTER: Duration = Duration::from_secs(5);

/// After each failed attempt the pause is twice as long, so often at most.
const MOST_DOUBLINGS: u32 = 6;

/// The connections of one lane.
pub(super) struct Connections {
    shared: Arc<Shared>,
    runtime: Handle,
    is_home: bool,
    places: Mutex<Vec<NodeConnection>>,
    /// Whether the runtime has no IO or no timers, which only a panic tells.
    is_unfit: AtomicBool,
}

/// The connection to one server.
#[derive(Default)]
struct NodeConnection {
    connection: Option<ServerConnection>,
    /// Generation of the store's connection to which this one belongs.
    generation: u64,
    /// Number of the last attempt to connect; `connection` came from it.
    number: u64,
    /// Whether an attempt runs.
    is_trying: bool,
    /// When the last attempt ended.
    tried: Option<Instant>,
    /// Attempts that failed in a row.
    failed: u32,
}

impl Connections {
    /// Connections of a lane on this runtime. The home lane of a single server has none of its own: it uses
    /// that of the store.
    pub(super) fn new(shared: Arc<Shared>, runtime: Handle, is_home: bool) -> Self {
        Self { shared, runtime, is_home, places: Mutex::default(), is_unfit: AtomicBool::new(false) }
    }

    /// The lane's runtime.
    pub(super) const fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Whether they are those of the home lane.
    pub(super) const fn is_home(&self) -> bool {
        self.is_home
    }

    fn is_of_store(&self) -> bool {
        self.is_home && !self.shared.link.is_cluster()
    }

    /// The connection to a server. Without one it returns `None`, and connects in the background.
    pub(super) fn to(self: &Arc<Self>, node: Option<NodeId>) -> Option<Connection> {
        if self.is_of_store() {
            return self.shared.link.single();
        }
        self.look(node?)
    }

    /// Whether there is a connection to a server. Without one it connects in the background.
    pub(super) fn reach(self: &Arc<Self>, node: Option<NodeId>) -> bool {
        self.is_of_store() || node.is_some_and(|node| self.look(node).is_some())
    }

    /// How many connections there are.
    pub(super) fn open(&self) -> usize {
        let is_open = |place: &&NodeConnection| place.connection.as_ref().is_some_and(|of| !of.is_closed());
        self.places.lock().iter().filter(is_open).count()
    }

    fn look(self: &Arc<Self>, node: NodeId) -> Option<Connection> {
        let link = &self.shared.link;
        let generation = link.present_generation();
        let mut places = self.places.lock();
        if places.len() <= node.index() {
            places.resize_with(node.index() + 1, NodeConnection::default);
        }
        let place = &mut places[node.index()];
        if place.generation != generation {
            // The store has another connection: this one may lead to a server that is no longer the right
            // one.
            *place = NodeConnection { generation, number: place.number, ..NodeConnection::default() };
        }
        if let Some(server) = &place.connection {
            let id = ConnectionId { node, number: place.number, generation };
            if !server.is_closed() {
                return Some(Connection { id, server: server.clone() });
            }
            drop(places);
            self.lose(id);
            return None;
        }
        let pause = link.timeouts.connect.max(RETRY_INTERVAL) * (1 << place.failed.min(MOST_DOUBLINGS));
        if !place.is_trying
            && place.tried.is_none_or(|tried| now().saturating_duration_since(tried) > pause)
            && !self.is_unfit.load(Ordering::Relaxed)
            && let Some(server) = link.server(node, generation)
        {
            place.number += 1;
            let id = ConnectionId { node, number: place.number, generation };
            // The cluster connection may have one, which the home lane shares.
            place.connection =
                link.nodes.as_ref().filter(|_| self.is_home).and_then(|nodes| nodes.connection(node));
            if let Some(server) = &place.connection {
                place.tried = Some(now());
                return Some(Connection { id, server: server.clone() });
            }
            place.is_trying = true;
            drop(places);
            self.runtime.spawn(Arc::clone(self).connect(id, server));
        }
        None
    }

    async fn connect(self: Arc<Self>, id: ConnectionId, server: Server) {
        let Shared { link, riders, .. } = &*self.shared;
        let mark = MarkIfPanicking(&self.is_unfit);
        let connected = connect_and_ping(server, link.timeouts.connect).await;
        drop(mark);
        match connected {
            Ok(connection) => {
                let mut places = self.places.lock();
                let place = places.get_mut(id.node.index());
                if let Some(place) = place.filter(|place| is_of(place, id)) {
                    (place.connection, place.failed) = (Some(connection), 0);
                    (place.tried, place.is_trying) = (Some(now()), false);
                    drop(places);
                    if self.is_home {
                        riders.renew(id.node);
                    }
                    // Last, since the application's metrics recorder may panic.
                    link.observer.connected();
                }
            }
            Err(error) => {
                // Another may have become the master.
                if let Some(nodes) = &link.nodes {
                    nodes.refresh();
                }
                if self.is_told(id) {
                    let cause = StoreError::from(link.call_error(error));
                    tracing::warn!(
                        error = %ErrorChain(&cause),
                        help = help("shared-connection"),
                        "a runtime has no connection to Redis of its own; its requests take that of the store"
                    );
                }
            }
        }
    }

    /// Notes a failed attempt. Returns whether it is logged: the second one while the store has its
    /// connection, once for a store.
    fn is_told(&self, id: ConnectionId) -> bool {
        let mut places = self.places.lock();
        let Some(place) = places.get_mut(id.node.index()).filter(|place| is_of(place, id)) else {
            return false;
        };
        place.failed += 1;
        (place.tried, place.is_trying) = (Some(now()), false);
        let is_second = place.failed == 2;
        drop(places);
        is_second && self.shared.link.is_up() && !self.shared.was_refused.swap(true, Ordering::Relaxed)
    }

    /// Gives up a lost connection, unless another has taken its place. Leases that came over it are void.
    pub(super) fn lose(&self, lost: ConnectionId) {
        let Shared { link, riders, .. } = &*self.shared;
        if self.is_of_store() {
            return link.mark_lost(lost.generation);
        }
        let mut places = self.places.lock();
        if let Some(place) = places.get_mut(lost.node.index()).filter(|place| is_of(place, lost)) {
            let gone = place.connection.take();
            // One that is lost soon again is not made without a pause.
            if place.tried.is_some_and(|tried| now().saturating_duration_since(tried) > STABLE_AFTER) {
                place.tried = None;
            }
            drop(places);
            drop(gone);
            if self.is_home {
                riders.renew(lost.node);
            }
            if let Some(nodes) = &link.nodes {
                if self.is_home {
                    nodes.forget(lost.node);
                }
                nodes.refresh();
            }
        }
    }

    /// Pings all connections, so that a loss is noticed without requests. A hang is noticed by the store's
    /// own connection, and by the requests that wait: a thread that computes does not reply either. Closes
    /// those to masters without hash slots.
    pub(super) fn ping(self: &Arc<Self>) {
        let link = &self.shared.link;
        if self.is_of_store() {
            return;
        }
        let count = u16::try_from(self.places.lock().len()).unwrap_or(u16::MAX);
        for node in (0..count).map(NodeId::of) {
            if link.nodes.as_ref().is_some_and(|nodes| !nodes.has_slots(node)) {
                self.places.lock()[node.index()].connection = None;
            }
            if self.places.lock()[node.index()].connection.is_none() {
                continue;
            }
            let Some(Connection { id, server }) = self.to(Some(node)) else { continue };
            let (connections, limit) = (Arc::clone(self), link.timeouts.ping_interval);
            self.shared.runtime.spawn(async move {
                if timeout(limit, server.ping())
                    .await
                    .is_ok_and(|reply| reply.is_err_and(|error| is_lost(&error)))
                {
                    connections.lose(id);
                }
            });
        }
    }
}

/// A connection whose server has replied, if only that its user may not PING. Without a password nothing is
/// said while connecting, so a refusal would be noticed by the first request.
async fn connect_and_ping(server: Server, limit: Duration) -> RedisResult<ServerConnection> {
    let connection = server.connect().await?;
    let late = |_| RedisError::from(io::Error::from(io::ErrorKind::TimedOut));
    match reply_within(limit, connection.ping()).await.map_err(late).flatten() {
        Err(error) if !lacks_command(&error) => Err(error),
        _ => Ok(connection),
    }
}

/// Sets a flag if a panic drops it.
struct MarkIfPanicking<'a>(&'a AtomicBool);

impl Drop for MarkIfPanicking<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Whether a place still has the connection of this attempt.
fn is_of(place: &NodeConnection, id: ConnectionId) -> bool {
    (place.generation, place.number) == (id.generation, id.number)
}
