//! The connections of one lane: one to the single server, or one to each master of a cluster. They live on
//! the lane's runtime.

use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::{RedisError, RedisResult};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::error::{is_lost, lacks_command};
use super::shared::Shared;
use super::timeouts::reply_by;
use super::topology::{NodeId, Server, ServerConnection, no_node};
use crate::error::{ErrorChain, StoreError};
use crate::observe::log::help;
use crate::store::Deadline;
use crate::store::deadline::{now, since};

/// Age from which a lost connection counts as stable, so that another is made at once.
const STABLE_AFTER: Duration = Duration::from_secs(5);

/// Minimum time between two attempts to connect to one server, or to read the owners of the hash slots.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Number of times that the pause of a worker doubles at most, once after each failed attempt.
const MOST_DOUBLINGS: u32 = 6;

/// Which connection of a lane a call takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionId {
    pub(super) node: NodeId,
    /// Number of the lane's connection to the node, which rises with each.
    pub(super) number: u64,
    /// Generation of the store's connection, against which failures count.
    pub(super) generation: u64,
}

impl ConnectionId {
    /// The generation against which a failure counts, and the node that it is about.
    pub(super) const fn known(&self) -> (u64, Option<NodeId>) {
        (self.generation, Some(self.node))
    }
}

/// A connection over which calls go.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    pub(super) server: ServerConnection,
}

/// The connections of one lane.
pub(super) struct Connections {
    shared: Arc<Shared>,
    runtime: Handle,
    /// Connections of the store's lane, for the lane of a worker.
    of_store: Option<Arc<Self>>,
    places: Mutex<Vec<Place>>,
    /// Wakes tasks when an attempt to connect has ended.
    tried: Notify,
    is_learning: AtomicBool,
    /// Which master is queried next for the owners of hash slots.
    next: AtomicUsize,
}

/// The connection to one server.
#[derive(Default)]
struct Place {
    connection: Option<ServerConnection>,
    /// Generation of the store's connections to which this one belongs.
    generation: u64,
    /// Number of the last attempt to connect; `connection` came from it.
    number: u64,
    /// Whether an attempt runs.
    is_trying: bool,
    /// When the last attempt ended.
    tried: Option<u64>,
    /// Why the last attempt failed.
    failure: Option<RedisError>,
    /// Attempts that failed in a row.
    failed: u32,
}

impl Place {
    fn open(&self) -> Option<&ServerConnection> {
        self.connection.as_ref().filter(|connection| !connection.is_closed())
    }
}

impl Connections {
    /// Connections of the store's lane. The supervisor connects to a single server.
    pub(super) fn of_store(shared: Arc<Shared>) -> Arc<Self> {
        let runtime = shared.runtime.clone();
        Self::new(shared, runtime, None)
    }

    /// Connections of a worker's lane, on its runtime.
    pub(super) fn of_worker(of_store: &Arc<Self>, runtime: Handle) -> Arc<Self> {
        Self::new(Arc::clone(&of_store.shared), runtime, Some(Arc::clone(of_store)))
    }

    fn new(shared: Arc<Shared>, runtime: Handle, of_store: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self {
            shared,
            runtime,
            of_store,
            places: Mutex::default(),
            tried: Notify::new(),
            is_learning: AtomicBool::new(false),
            next: AtomicUsize::new(0),
        })
    }

    /// The lane's runtime.
    pub(super) const fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Whether they belong to the store's lane.
    pub(super) const fn is_of_store(&self) -> bool {
        self.of_store.is_none()
    }

    /// Number of open connections.
    pub(super) fn open(&self) -> usize {
        self.places.lock().iter().filter(|place| place.open().is_some()).count()
    }

    /// The connection to a server. Without one it returns `None`, and connects in the background.
    pub(super) fn to(self: &Arc<Self>, node: NodeId) -> Option<Connection> {
        let link = &self.shared.link;
        let mut places = self.places.lock();
        // Under the lock, so that the generation is never older than the last `install`.
        let generation = link.present_generation();
        let place = place_of(&mut places, node);
        if place.generation < generation {
            // The store has made other connections: this one may lead to a server that is no longer the
            // master.
            *place = Place { generation, number: place.number, ..Place::default() };
        }
        let id = ConnectionId { node, number: place.number, generation };
        match &place.connection {
            Some(server) if !server.is_closed() => {
                return Some(Connection { id, server: server.clone() });
            }
            Some(_) => {
                drop(places);
                self.lose(id);
                return self.to(node);
            }
            None => {}
        }
        let pause = if self.is_of_store() {
            RETRY_INTERVAL
        } else {
            link.timeouts.connect.max(RETRY_INTERVAL) * (1 << place.failed.min(MOST_DOUBLINGS))
        };
        let may_try = place.tried.is_none_or(|tried| since(tried) > pause);
        if place.is_trying || !may_try {
            return None;
        }
        let server = self.server(node)?;
        (place.is_trying, place.number) = (true, place.number + 1);
        let id = ConnectionId { number: place.number, ..id };
        drop(places);
        self.runtime.spawn(Arc::clone(self).connect(id, server));
        None
    }

    /// The connection to a master of a cluster. Without one it waits for an attempt to connect.
    pub(super) async fn reach(self: &Arc<Self>, node: NodeId) -> RedisResult<Connection> {
        loop {
            // Before `to`, so that an attempt that ends in between is noticed.
            let tried = self.tried.notified();
            if let Some(connection) = self.to(node) {
                return Ok(connection);
            }
            if let Some(place) = self.places.lock().get(node.index()).filter(|place| !place.is_trying) {
                let failure = place.failure.clone();
                return Err(failure.unwrap_or_else(|| no_node("the connection was lost")));
            }
            tried.await;
        }
    }

    /// How to make a connection to a server. `None` for the single server while the store has no connection.
    fn server(&self, node: NodeId) -> Option<Server> {
        match &self.shared.link.nodes {
            Some(nodes) => nodes.server(node),
            None => Some(self.of_store.as_ref()?.to(node)?.server.server()),
        }
    }

    async fn connect(self: Arc<Self>, id: ConnectionId, server: Server) {
        let connected = connect_and_ping(server, self.shared.link.timeouts.connect).await;
        let mut places = self.places.lock();
        let Some(place) = places.get_mut(id.node.index()).filter(|place| is_of(place, id)) else { return };
        (place.tried, place.is_trying) = (Some(now()), false);
        match connected {
            Ok(connection) => {
                (place.connection, place.failed) = (Some(connection), 0);
                drop(places);
                if self.is_of_store() {
                    self.shared.attachments.renew(id.node);
                }
                self.tried.notify_waiters();
                self.shared.link.observer.connected();
            }
            Err(error) => {
                (place.failure, place.failed) = (Some(error.clone()), place.failed + 1);
                let is_second = place.failed == 2;
                drop(places);
                self.tried.notify_waiters();
                // Another node may have become the master.
                self.learn_owners();
                if is_second && !self.is_of_store() {
                    self.warn(error, id.node);
                }
            }
        }
    }

    /// Logs that a worker has no connection while the store has one. Does so once for a store.
    fn warn(&self, error: RedisError, node: NodeId) {
        let link = &self.shared.link;
        if link.is_up() && !self.shared.was_refused.swap(true, Ordering::Relaxed) {
            let cause = StoreError::from(link.call_error(error, Some(node)));
            tracing::warn!(
                error = %ErrorChain(&cause),
                help = help("shared-connection"),
                "a worker has no connection to Redis of its own; its requests take that of the store"
            );
        }
    }

    /// Replaces all connections by the verified connections of a new generation.
    pub(super) fn install(&self, generation: u64, servers: Vec<(NodeId, ServerConnection)>) {
        let mut places = self.places.lock();
        let mut gone = mem::take(&mut *places);
        for (node, server) in servers {
            let number = place_of(&mut gone, node).number + 1;
            let (connection, tried) = (Some(server), Some(now()));
            *place_of(&mut places, node) =
                Place { connection, generation, number, tried, ..Place::default() };
        }
        drop(places);
        self.tried.notify_waiters();
    }

    /// Gives up a lost connection, unless another has replaced it. Leases that came over it are void.
    pub(super) fn lose(self: &Arc<Self>, lost: ConnectionId) {
        let Shared { link, attachments, .. } = &*self.shared;
        let mut places = self.places.lock();
        let Some(place) = places.get_mut(lost.node.index()).filter(|place| is_of(place, lost)) else {
            return;
        };
        let gone = place.connection.take();
        // A connection that is lost soon after it was made is made again only after a pause.
        if place.tried.is_some_and(|tried| since(tried) > STABLE_AFTER) {
            place.tried = None;
        }
        place.failure = None;
        drop(places);
        drop(gone);
        if self.is_of_store() {
            if link.is_cluster() {
                attachments.renew(lost.node);
            } else {
                link.mark_lost(lost.generation);
            }
        }
        self.learn_owners();
    }

    /// Reads the owners of all hash slots in the background, from one of the masters to which the store is
    /// connected. Does nothing without a cluster, and while it is being done.
    pub(super) fn learn_owners(self: &Arc<Self>) {
        let of_store = self.of_store.as_ref().unwrap_or(self);
        let Some(nodes) = self.shared.link.nodes.clone() else { return };
        if of_store.is_learning.swap(true, Ordering::Relaxed) {
            return;
        }
        let connections = Arc::clone(of_store);
        self.shared.runtime.spawn(async move {
            let mut servers = connections.servers();
            let count = servers.len().max(1);
            // A master that has left the cluster may answer with owners that are out of date.
            servers.rotate_left(connections.next.fetch_add(1, Ordering::Relaxed) % count);
            for (node, server) in servers {
                // If the master hangs, the requests that wait for it notice.
                let learned = timeout(connections.shared.link.deadline(), nodes.learn_from(node, &server));
                if matches!(learned.await, Ok(Ok(()))) {
                    break;
                }
            }
            // Without owners each flush would begin another attempt.
            sleep(RETRY_INTERVAL).await;
            connections.is_learning.store(false, Ordering::Relaxed);
        });
    }

    /// The servers to which there is a connection.
    fn servers(&self) -> Vec<(NodeId, ServerConnection)> {
        let places = self.places.lock();
        let connections = places.iter().map(|place| place.open().cloned());
        (0..).map(NodeId::of).zip(connections).filter_map(|(node, server)| Some((node, server?))).collect()
    }

    /// Pings all connections, so that a loss is noticed without requests. A ping without a reply shows no
    /// hang of the server, since the lane's thread may be computing: the supervisor and the requests that
    /// wait notice a hang. Closes connections to masters without hash slots.
    pub(super) fn ping(self: &Arc<Self>) {
        let link = &self.shared.link;
        if self.is_of_store() && !link.is_cluster() {
            // The supervisor pings.
            return;
        }
        for (node, _) in self.servers() {
            if link.nodes.as_ref().is_some_and(|nodes| !nodes.has_slots(node)) {
                let gone = place_of(&mut self.places.lock(), node).connection.take();
                drop(gone);
                continue;
            }
            let Some(Connection { id, server }) = self.to(node) else { continue };
            let (connections, interval) = (Arc::clone(self), link.timeouts.ping_interval);
            self.shared.runtime.spawn(async move {
                if timeout(interval, server.ping())
                    .await
                    .is_ok_and(|reply| reply.is_err_and(|error| is_lost(&error)))
                {
                    connections.lose(id);
                }
            });
        }
    }
}

/// A connection whose server has replied to a ping, if only that its user may not PING. Without a password
/// the server sends nothing while connecting, so otherwise the first request would notice a refusal.
async fn connect_and_ping(server: Server, timeout: Duration) -> RedisResult<ServerConnection> {
    let connection = server.connect().await?;
    let late = || RedisError::from(io::Error::from(io::ErrorKind::TimedOut));
    match reply_by(&mut Deadline::after(timeout), connection.ping()).await.ok_or_else(late).flatten() {
        Err(error) if !lacks_command(&error) => Err(error),
        _ => Ok(connection),
    }
}

fn place_of(places: &mut Vec<Place>, node: NodeId) -> &mut Place {
    if places.len() <= node.index() {
        places.resize_with(node.index() + 1, Place::default);
    }
    &mut places[node.index()]
}

/// Whether a place still has the connection that this attempt made.
fn is_of(place: &Place, id: ConnectionId) -> bool {
    (place.generation, place.number) == (id.generation, id.number)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;
    use crate::store::redis::link::tests::{connection_to, mark_up};
    use crate::store::redis::shared::tests::shared_of;
    use crate::store::redis::topology::Nodes;
    use crate::store::redis::topology::tests::{claim, nodes};

    /// A master of a cluster that claims all hash slots, and a connection to it.
    async fn master(nodes: &Nodes) -> (NodeId, ServerConnection) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (node, reply) = claim(nodes, port);
        thread::spawn(move || {
            let (mut stream, mut command) = (listener.accept().unwrap().0, [0; 256]);
            while stream.read(&mut command).is_ok_and(|length| length > 0) {
                stream.write_all(reply.as_bytes()).unwrap();
            }
        });
        (node, connection_to(&format!("redis://127.0.0.1:{port}/")).await)
    }

    /// The store's connections to two masters, each of which claims all hash slots.
    async fn of_two_masters() -> (Arc<Connections>, Arc<Nodes>, [NodeId; 2]) {
        let nodes = nodes();
        let shared = shared_of(Some(Arc::clone(&nodes)), &Handle::current());
        mark_up(&shared.link, 1);
        let masters = vec![master(&nodes).await, master(&nodes).await];
        let ids = [masters[0].0, masters[1].0];
        let connections = Connections::of_store(shared);
        connections.install(1, masters);
        (connections, nodes, ids)
    }

    #[tokio::test]
    async fn the_owners_of_hash_slots_are_read_from_one_master_after_another() {
        let (connections, nodes, ids) = of_two_masters().await;
        for id in [ids[0], ids[1], ids[0]] {
            let learned = async {
                while nodes.owner(0) != Some(id) {
                    connections.learn_owners();
                    sleep(RETRY_INTERVAL / 20).await;
                }
            };
            timeout(Duration::from_secs(30), learned).await.expect("the answer of the other master");
        }
    }

    #[tokio::test]
    async fn a_connection_to_a_master_that_has_lost_its_hash_slots_is_closed() {
        let (connections, nodes, _) = of_two_masters().await;
        connections.learn_owners();
        while nodes.owner(0).is_none() {
            sleep(RETRY_INTERVAL / 20).await;
        }
        assert_eq!(connections.open(), 2);
        connections.ping();
        assert_eq!(connections.open(), 1);
    }
}
