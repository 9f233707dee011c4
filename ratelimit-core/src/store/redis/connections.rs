//! The connections of one lane: one to the single server, or one to each master of a cluster. They live on the lane's runtime.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::{Client, RedisResult};
use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};

use super::error::is_lost;
use super::shared::Shared;
use super::topology::{Connection, ConnectionId, NodeId, RETRY_INTERVAL, ServerConnection};
use crate::error::{ErrorChain, StoreError};
use crate::observe::log::help;

/// The connections of one lane.
pub(super) struct Connections {
    shared: Arc<Shared>,
    runtime: Handle,
    is_home: bool,
    places: Mutex<Vec<Place>>,
    /// Whether the server refused a connection while the store had one, which is logged once.
    was_refused: AtomicBool,
}

/// The connection to one server.
#[derive(Default)]
struct Place {
    connection: Option<ServerConnection>,
    /// Generation of the store's connection to which this one belongs.
    generation: u64,
    /// Number of the last attempt to connect; `connection` came from it.
    number: u64,
    /// When the last attempt began.
    tried: Option<Instant>,
}

impl Connections {
    /// Connections of a lane on this runtime. The home lane of a single server has none of its own: it uses that of the store.
    pub(super) fn new(shared: Arc<Shared>, runtime: Handle, is_home: bool) -> Self {
        Self { shared, runtime, is_home, places: Mutex::default(), was_refused: AtomicBool::new(false) }
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
        self.look(node?, |id, server| Connection { id, server: server.clone() })
    }

    /// Whether there is a connection to a server. Without one it connects in the background.
    pub(super) fn reach(self: &Arc<Self>, node: Option<NodeId>) -> bool {
        self.is_of_store() || node.is_some_and(|node| self.look(node, |_, _| ()).is_some())
    }

    /// Whether there is any connection.
    pub(super) fn are_open(&self) -> bool {
        self.places.lock().iter().any(|place| place.connection.is_some())
    }

    fn look<R>(
        self: &Arc<Self>,
        node: NodeId,
        found: impl FnOnce(ConnectionId, &ServerConnection) -> R,
    ) -> Option<R> {
        let link = &self.shared.link;
        let generation = link.present_generation();
        let mut places = self.places.lock();
        if places.len() <= node.index() {
            places.resize_with(node.index() + 1, Place::default);
        }
        let place = &mut places[node.index()];
        if place.generation != generation {
            // The store has another connection: this one may lead to a server that is no longer the right one.
            *place = Place { generation, number: place.number, ..Place::default() };
        }
        if let Some(server) = &place.connection {
            return Some(found(ConnectionId { node, number: place.number, generation }, server));
        }
        let pause = link.timeouts.connect.max(RETRY_INTERVAL);
        if place.tried.is_none_or(|tried| tried.elapsed() > pause)
            && let Some(client) = link.client_of(node)
        {
            (place.tried, place.number) = (Some(Instant::now()), place.number + 1);
            let id = ConnectionId { node, number: place.number, generation };
            drop(places);
            self.runtime.spawn(Arc::clone(self).connect(id, client));
        }
        None
    }

    async fn connect(self: Arc<Self>, id: ConnectionId, client: RedisResult<Client>) {
        let Shared { link, riders, .. } = &*self.shared;
        let connected = match client {
            Ok(client) => ServerConnection::open(&client, link.timeouts).await,
            Err(error) => Err(error),
        };
        match connected {
            Ok(connection) => {
                let mut places = self.places.lock();
                let place = places.get_mut(id.node.index());
                if let Some(place) = place.filter(|place| is_of(place, id)) {
                    place.connection = Some(connection);
                    drop(places);
                    if self.is_home {
                        riders.renew(id.node);
                    }
                }
            }
            Err(error) => {
                if let Some(nodes) = &link.nodes {
                    // Another may have become the master.
                    nodes.refresh();
                } else if link.is_up() && !self.was_refused.swap(true, Ordering::Relaxed) {
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

    /// Gives up a lost connection, unless another has taken its place. Leases of its server are void.
    pub(super) fn lose(&self, lost: ConnectionId) {
        let Shared { link, riders, .. } = &*self.shared;
        if self.is_of_store() {
            return link.mark_lost(lost.generation);
        }
        let mut places = self.places.lock();
        if let Some(place) = places.get_mut(lost.node.index()).filter(|place| is_of(place, lost)) {
            let gone = place.connection.take();
            place.tried = None;
            drop(places);
            drop(gone);
            riders.renew(lost.node);
            if let Some(nodes) = &link.nodes {
                nodes.refresh();
            }
        }
    }

    /// Pings all connections, so that a loss or a hang is noticed without requests. Closes those to masters without hash slots.
    pub(super) async fn ping(self: &Arc<Self>) {
        let link = &self.shared.link;
        let count = u16::try_from(self.places.lock().len()).unwrap_or(u16::MAX);
        for node in (0..count).map(NodeId::of) {
            if link.nodes.as_ref().is_some_and(|nodes| !nodes.has_slots(node)) {
                self.places.lock()[node.index()].connection = None;
            }
            if self.places.lock()[node.index()].connection.is_none() {
                continue;
            }
            let Some(Connection { id, server }) = self.to(Some(node)) else { continue };
            // A cluster's master that hangs is noticed by the requests that wait for it.
            let is_gone = match in_time(link.deadline(), server.ping()).await {
                Some(Ok(())) => false,
                Some(Err(error)) => is_lost(&error),
                None => !link.is_cluster(),
            };
            if is_gone {
                self.lose(id);
            }
        }
    }
}

/// Whether a place still has the connection of this attempt.
fn is_of(place: &Place, id: ConnectionId) -> bool {
    (place.generation, place.number) == (id.generation, id.number)
}

/// The output of a future, unless it takes longer than `limit`. Time in which the runtime did not run does not count: what has arrived
/// meanwhile gets a turn.
async fn in_time<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    if let Ok(output) = timeout(limit, future.as_mut()).await {
        return Some(output);
    }
    yield_now().await;
    timeout(Duration::ZERO, future).await.ok()
}
