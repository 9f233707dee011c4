//! The hash slots of a cluster, in ranges that fail independently, and the masters that own them.
//!
//! Each lane sends calls to a known master over a connection of its own. Everything unusual is left to the
//! cluster connection: redirects, unknown owners, and masters to which there is no connection at the moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use parking_lot::Mutex;
use redis::ConnectionInfo;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use super::cluster::{Address, ClusterConnection, OwnedSlots, RETRY_INTERVAL};
use super::connector::{Connector, server_at};
use super::server::{NodeId, Server, ServerConnection};

/// Number of ranges into which the hash slots of a cluster are divided, so that a hanging node does not
/// affect the others. A single server is one range.
pub(in crate::store::redis) const SLOT_RANGES: usize = 64;

/// Number of hash slots in a cluster.
const HASH_SLOTS: u16 = 16_384;

/// Most nodes that are remembered.
const MOST_MEMBERS: usize = 32;

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

/// The masters of a cluster, and the hash slots of each.
pub(in crate::store::redis) struct Nodes {
    /// The owner of each hash slot, or [`UNKNOWN`].
    owners: Box<[AtomicU16]>,
    /// They keep their place, so that an id always names the same address.
    masters: Mutex<Vec<Address>>,
    /// Nodes that have been in the cluster, those of the last reply first.
    members: Mutex<Vec<Address>>,
    /// Reads the owners of the hash slots; that of the present connection.
    cluster: Mutex<Option<ClusterConnection>>,
    is_refreshing: AtomicBool,
    /// Settings of one node, from which those of any other node follow.
    pattern: ConnectionInfo,
    connector: Connector,
    /// Callers of this are on other threads.
    runtime: Handle,
}

impl Nodes {
    pub(super) fn new(pattern: ConnectionInfo, connector: Connector, runtime: Handle) -> Self {
        Self {
            owners: (0..HASH_SLOTS).map(|_| AtomicU16::new(UNKNOWN)).collect(),
            masters: Mutex::default(),
            members: Mutex::default(),
            cluster: Mutex::default(),
            is_refreshing: AtomicBool::new(false),
            pattern,
            connector,
            runtime,
        }
    }

    /// The owner of a hash slot, if it is known. It may have lost the hash slot since; then it replies
    /// `MOVED`.
    pub(in crate::store::redis) fn owner(&self, hash_slot: u16) -> Option<NodeId> {
        let owner = self.owners[usize::from(hash_slot)].load(Ordering::Relaxed);
        (owner != UNKNOWN).then_some(NodeId(owner))
    }

    /// Whether a master has any hash slot.
    pub(in crate::store::redis) fn has_slots(&self, node: NodeId) -> bool {
        self.owners.iter().any(|owner| owner.load(Ordering::Relaxed) == node.0)
    }

    /// Starts over with another cluster connection.
    pub(in crate::store::redis) fn start_over(&self, cluster: ClusterConnection) {
        self.note_owners(&cluster.owners());
        *self.cluster.lock() = Some(cluster);
    }

    /// How to connect to a master.
    pub(in crate::store::redis) fn server(&self, node: NodeId) -> Option<Server> {
        let masters = self.masters.lock();
        let Address { host, port } = masters.get(node.index())?;
        let settings = server_at(&self.pattern, host, *port);
        Some(Server { settings, connector: self.connector.clone(), address: None })
    }

    /// The connection to a master that the cluster connection has.
    pub(in crate::store::redis) fn connection(&self, node: NodeId) -> Option<ServerConnection> {
        let address = self.masters.lock().get(node.index())?.clone();
        let cluster = self.cluster.lock().clone()?;
        let (_, connection) = cluster.connected().into_iter().find(|(known, _)| *known == address)?;
        (!connection.is_closed()).then_some(connection)
    }

    /// Has the cluster connection forget a lost connection to a master.
    pub(in crate::store::redis) fn forget(&self, node: NodeId) {
        let address = self.masters.lock().get(node.index()).cloned();
        if let (Some(cluster), Some(address)) = (&*self.cluster.lock(), address) {
            cluster.forget(&address);
        }
    }

    /// Reads the owners of all hash slots in the background, unless that is being done.
    pub(in crate::store::redis) fn refresh(self: &Arc<Self>) {
        if self.is_refreshing.swap(true, Ordering::Relaxed) {
            return;
        }
        let nodes = Arc::clone(self);
        self.runtime.spawn(async move {
            // Without owners requests go over the cluster connection, and each of their batches asks for
            // another attempt.
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

    /// Some nodes of the cluster, for a time at which those of the URL are gone.
    pub(super) fn members(&self) -> Vec<ConnectionInfo> {
        let members = self.members.lock();
        members.iter().map(|Address { host, port }| server_at(&self.pattern, host, *port)).collect()
    }

    /// Notes who is in the cluster. Earlier nodes stay: the one that replied may have left the cluster.
    pub(super) fn note_members(&self, slots: &[OwnedSlots]) {
        let (masters, replicas) =
            (slots.iter().map(|of| &of.owner), slots.iter().flat_map(|of| &of.replicas));
        let mut members = self.members.lock();
        let mut noted: Vec<Address> = Vec::new();
        for member in masters.chain(replicas).chain(&*members) {
            if noted.len() < MOST_MEMBERS && !noted.contains(member) {
                noted.push(member.clone());
            }
        }
        *members = noted;
    }

    fn note_owners(&self, slots: &[OwnedSlots]) {
        self.note_members(slots);
        let mut owners = vec![UNKNOWN; usize::from(HASH_SLOTS)];
        for OwnedSlots { first, last, owner, .. } in slots {
            if let Some(range) = owners.get_mut(usize::from(*first)..=usize::from(*last)) {
                range.fill(self.id_of(owner).0);
            }
        }
        for (known, &owner) in self.owners.iter().zip(&owners) {
            known.store(owner, Ordering::Relaxed);
        }
    }

    /// The id of the master at an address.
    fn id_of(&self, address: &Address) -> NodeId {
        let mut masters = self.masters.lock();
        let known = masters.iter().position(|master| master == address);
        let index = known.unwrap_or_else(|| {
            masters.push(address.clone());
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
