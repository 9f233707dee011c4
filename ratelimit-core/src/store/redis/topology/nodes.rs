//! The hash slots of a cluster, in ranges that fail independently, and the masters that own them: a connection to each.
//!
//! Calls go at once to the master that is known as the owner, as to a single server. Everything unusual is left to the cluster
//! connection: redirects, unknown owners, and masters to which there is no connection at the moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use redis::ConnectionInfo;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use super::cluster::{Address, ClusterConnection, OwnedSlots, RETRY_INTERVAL};
use super::connector::{Connector, server_at};
use super::server::{Connection, ConnectionId, NodeId, ServerConnection};
use crate::store::deadline::now;
use crate::store::redis::error::is_lost;

/// Number of ranges into which the hash slots of a cluster are divided, so that a hanging node does not affect the others. A single
/// server is one range.
pub(in crate::store::redis) const SLOT_RANGES: usize = 64;

/// Number of hash slots in a cluster.
const HASH_SLOTS: u16 = 16_384;

/// Stands for a hash slot whose owner is not known.
const UNKNOWN: u16 = u16::MAX;

/// The hash tag of a key, which decides its hash slot.
fn hash_tag(key: &str) -> &str {
    key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or(key, |(tag, _)| tag)
}

/// The hash slot of a hash tag.
pub(in crate::store::redis) fn hash_slot_of_tag(tag: &[u8]) -> u16 {
    crc16::State::<crc16::XMODEM>::calculate(tag) % HASH_SLOTS
}

/// The range of a hash slot.
pub(in crate::store::redis) fn range_of_slot(hash_slot: u16) -> usize {
    usize::from(hash_slot) * SLOT_RANGES / usize::from(HASH_SLOTS)
}

/// The hash slot of a key.
pub(in crate::store::redis) fn hash_slot_of_key(key: &str) -> u16 {
    hash_slot_of_tag(hash_tag(key).as_bytes())
}

/// One key in each slot range, found among `key(0)`, `key(1)` and so on.
pub(in crate::store::redis) fn key_in_each_range(key: impl Fn(u32) -> String) -> Vec<String> {
    let mut found = vec![String::new(); SLOT_RANGES];
    let mut missing = SLOT_RANGES;
    for key in (0..).map(key) {
        let place = &mut found[range_of_slot(hash_slot_of_key(&key))];
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

/// The masters of a cluster.
pub(in crate::store::redis) struct Nodes {
    /// The owner of each hash slot, or [`UNKNOWN`].
    owners: Box<[AtomicU16]>,
    /// Masters keep their place, so that an id always names the same address.
    masters: Mutex<Vec<Master>>,
    /// Reads the owners of the hash slots; that of the present connection.
    cluster: Mutex<Option<ClusterConnection>>,
    is_refreshing: AtomicBool,
    /// Settings of one node, from which those of any other node follow.
    pattern: ConnectionInfo,
    connector: Connector,
    /// Called when a connection to a master is made or gone.
    renew: Box<dyn Fn(NodeId) + Send + Sync>,
    /// Callers of this are on other threads.
    runtime: Handle,
}

struct Master {
    address: Address,
    connection: Option<ServerConnection>,
    /// Number of the last attempt to connect; `connection` came from it.
    number: u64,
    /// When the last attempt began.
    tried: Option<Instant>,
}

impl Nodes {
    pub(super) fn new(
        pattern: ConnectionInfo,
        connector: Connector,
        renew: Box<dyn Fn(NodeId) + Send + Sync>,
        runtime: Handle,
    ) -> Self {
        Self {
            owners: (0..HASH_SLOTS).map(|_| AtomicU16::new(UNKNOWN)).collect(),
            masters: Mutex::default(),
            cluster: Mutex::default(),
            is_refreshing: AtomicBool::new(false),
            pattern,
            connector,
            renew,
            runtime,
        }
    }

    /// The owner of a hash slot, if it is known. It may have lost the hash slot since; then it replies `MOVED`.
    pub(in crate::store::redis) fn owner(&self, hash_slot: u16) -> Option<NodeId> {
        let owner = self.owners[usize::from(hash_slot)].load(Ordering::Relaxed);
        (owner != UNKNOWN).then_some(NodeId(owner))
    }

    /// Starts over with a new cluster connection, and with its connections to the masters.
    pub(in crate::store::redis) fn start_over(self: &Arc<Self>, cluster: ClusterConnection) {
        for master in &mut *self.masters.lock() {
            (master.connection, master.tried) = (None, None);
        }
        self.note_owners(&cluster.owners());
        for (address, connection) in cluster.connected() {
            let node = self.id_of(&address);
            if let Some(master) = self.masters.lock().get_mut(node.index()) {
                // An attempt that still runs came too late.
                (master.connection, master.number) = (Some(connection), master.number + 1);
            }
            (self.renew)(node);
        }
        *self.cluster.lock() = Some(cluster);
    }

    /// The connection to a master. Without one it returns `None`, and connects in the background.
    pub(in crate::store::redis) fn connection(
        self: &Arc<Self>,
        node: NodeId,
        generation: u64,
    ) -> Option<Connection> {
        let mut masters = self.masters.lock();
        let master = masters.get_mut(node.index())?;
        if let Some(server) = &master.connection {
            let id = ConnectionId { node, number: master.number, generation };
            return Some(Connection { id, server: server.clone() });
        }
        if master.tried.is_none_or(|tried| {
            now().saturating_duration_since(tried) > self.connector.timeouts.connect.max(RETRY_INTERVAL)
        }) {
            (master.tried, master.number) = (Some(now()), master.number + 1);
            let server = server_at(&self.pattern, &master.address.host, master.address.port);
            self.runtime.spawn(Arc::clone(self).connect(node, master.number, server));
        }
        None
    }

    async fn connect(self: Arc<Self>, node: NodeId, number: u64, server: ConnectionInfo) {
        let connected = ServerConnection::open(&server, &self.connector).await;
        let mut masters = self.masters.lock();
        let Some(master) = masters.get_mut(node.index()).filter(|master| master.number == number) else {
            return;
        };
        if let Ok(connection) = connected {
            (self.renew)(node);
            master.connection = Some(connection);
        } else {
            drop(masters);
            // Another may have become the master.
            self.refresh();
        }
    }

    /// Forgets a lost connection, unless another has taken its place.
    pub(in crate::store::redis) fn lose(self: &Arc<Self>, lost: ConnectionId) {
        let mut masters = self.masters.lock();
        if let Some(master) = masters.get_mut(lost.node.index())
            && master.number == lost.number
        {
            (master.connection, master.tried) = (None, None);
            (self.renew)(lost.node);
            if let Some(cluster) = &*self.cluster.lock() {
                cluster.forget(&master.address);
            }
        }
        drop(masters);
        self.refresh();
    }

    /// Notices connections that were lost while no command was in flight.
    pub(in crate::store::redis) fn ping(self: &Arc<Self>, generation: u64) {
        let count = u16::try_from(self.masters.lock().len()).unwrap_or(UNKNOWN);
        for node in (0..count).map(NodeId) {
            let is_open = self.masters.lock()[node.index()].connection.is_some();
            if is_open && let Some(Connection { id, server }) = self.connection(node, generation) {
                let (nodes, limit) = (Arc::clone(self), self.connector.timeouts.deadline);
                self.runtime.spawn(async move {
                    // A master that hangs is noticed by the requests that wait for it.
                    let reply = timeout(limit, server.ping()).await;
                    if reply.is_ok_and(|reply| reply.as_ref().is_err_and(is_lost)) {
                        nodes.lose(id);
                    }
                });
            }
        }
    }

    /// Reads the owners of all hash slots in the background, unless that is being done.
    pub(in crate::store::redis) fn refresh(self: &Arc<Self>) {
        if self.is_refreshing.swap(true, Ordering::Relaxed) {
            return;
        }
        let nodes = Arc::clone(self);
        self.runtime.spawn(async move {
            // Without owners requests go over the cluster connection, and each of their batches asks for another attempt.
            let cluster = nodes.cluster.lock().clone();
            if let Some(cluster) = cluster
                && let Ok(Ok(slots)) = timeout(nodes.connector.timeouts.connect, cluster.read_owners()).await
            {
                nodes.note_owners(&slots);
            }
            sleep(RETRY_INTERVAL).await;
            nodes.is_refreshing.store(false, Ordering::Relaxed);
        });
    }

    fn note_owners(&self, slots: &[OwnedSlots]) {
        let mut owners = vec![UNKNOWN; usize::from(HASH_SLOTS)];
        for OwnedSlots { first, last, owner } in slots {
            if let Some(range) = owners.get_mut(usize::from(*first)..=usize::from(*last)) {
                range.fill(self.id_of(owner).0);
            }
        }
        for (known, &owner) in self.owners.iter().zip(&owners) {
            known.store(owner, Ordering::Relaxed);
        }
        // A node that has no hash slots any more needs no connection.
        for (index, master) in self.masters.lock().iter_mut().enumerate() {
            if !owners.iter().any(|&owner| usize::from(owner) == index) {
                master.connection = None;
            }
        }
    }

    /// The id of the master at an address.
    fn id_of(&self, address: &Address) -> NodeId {
        let mut masters = self.masters.lock();
        let known = masters.iter().position(|master| master.address == *address);
        let index = known.unwrap_or_else(|| {
            masters.push(Master { address: address.clone(), connection: None, number: 0, tried: None });
            masters.len() - 1
        });
        NodeId(u16::try_from(index).unwrap_or(UNKNOWN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_in_each_slot_range() {
        let keys = key_in_each_range(|i| format!("rl1:probe:{i}"));
        assert_eq!(keys.len(), SLOT_RANGES);
        for (range, key) in keys.iter().enumerate() {
            assert_eq!(range_of_slot(hash_slot_of_key(key)), range, "{key}");
        }
    }
}
