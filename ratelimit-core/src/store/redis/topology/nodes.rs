//! The hash slots of a cluster, in ranges that fail independently, and the table of the masters that own
//! them. Replies to `CLUSTER SLOTS` and redirects fill the table.

use std::sync::atomic::{AtomicU16, Ordering};

use parking_lot::Mutex;
use redis::{ConnectionInfo, RedisError, RedisResult};
use tokio::task::JoinSet;

use super::cluster::{Address, OwnedSlots, find, slots_known_to};
use super::connector::{Connector, server_at};
use super::server::{Server, ServerConnection};
use crate::store::redis::error::{ALL_SLOTS, HashSlots};

/// Number of ranges into which the hash slots of a cluster are divided, so that a hanging node does not
/// affect the others. A single server is one range.
pub(in crate::store::redis) const SLOT_RANGES: usize = 64;

/// Number of hash slots in a cluster.
const HASH_SLOTS: u16 = ALL_SLOTS.1 + 1;

/// Largest number of nodes that are remembered.
const MOST_MEMBERS: usize = 32;

/// Stands for a hash slot whose owner is not known.
const UNKNOWN: u16 = u16::MAX;

/// The hash tag of a key, which decides its hash slot.
fn hash_tag(key: &[u8]) -> &[u8] {
    let mut parts = key.splitn(2, |byte| *byte == b'{').skip(1);
    let tag = parts.next().and_then(|rest| Some(&rest[..rest.iter().position(|byte| *byte == b'}')?]));
    tag.unwrap_or(key)
}

/// The hash slot of a hash tag.
pub(in crate::store::redis) fn hash_slot_of_tag(tag: &[u8]) -> u16 {
    crc16::State::<crc16::XMODEM>::calculate(tag) % HASH_SLOTS
}

/// The range of a hash slot.
pub(in crate::store::redis) fn range_of_slot(hash_slot: u16) -> usize {
    usize::from(hash_slot) * SLOT_RANGES / usize::from(HASH_SLOTS)
}

/// The first hash slot of a range.
pub(in crate::store::redis) fn first_slot(range: usize) -> u16 {
    u16::try_from(range * usize::from(HASH_SLOTS) / SLOT_RANGES).unwrap_or(u16::MAX)
}

/// The hash slot of a key.
pub(in crate::store::redis) fn hash_slot_of_key(key: &[u8]) -> u16 {
    hash_slot_of_tag(hash_tag(key))
}

/// One key in each slot range, found among `key(0)`, `key(1)` and so on.
pub(in crate::store::redis) fn key_in_each_range(key: impl Fn(u32) -> String) -> Vec<String> {
    let mut found = vec![String::new(); SLOT_RANGES];
    let mut missing = SLOT_RANGES;
    for key in (0..).map(key) {
        let place = &mut found[range_of_slot(hash_slot_of_key(key.as_bytes()))];
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

/// A server: the single one, or a master of a cluster by its index in the list of all masters ever seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::store::redis) struct NodeId(u16);

impl NodeId {
    /// The server of a store without a cluster.
    pub(in crate::store::redis) const SINGLE: Self = Self(0);

    pub(in crate::store::redis) const fn of(index: u16) -> Self {
        Self(index)
    }

    pub(in crate::store::redis) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What an attempt to connect has found.
pub(in crate::store::redis) struct Found {
    /// Connection to the single server, or to each master of a cluster; or why it cannot be reached.
    pub(in crate::store::redis) servers: Vec<(NodeId, RedisResult<ServerConnection>)>,
    /// The masters of a cluster.
    pub(in crate::store::redis) slots: Vec<OwnedSlots>,
}

impl Found {
    /// The connection to the server that has the keys of a hash slot, or why there is none.
    pub(in crate::store::redis) fn server_of(
        &self,
        hash_slot: u16,
        nodes: Option<&Nodes>,
    ) -> Option<&RedisResult<ServerConnection>> {
        let owner = match nodes {
            None => NodeId::SINGLE,
            Some(nodes) => {
                let owned = self.slots.iter().find(|of| (of.first..=of.last).contains(&hash_slot))?;
                nodes.id_of(&owned.owner)
            }
        };
        self.servers.iter().find(|(node, _)| *node == owner).map(|(_, server)| server)
    }
}

/// The masters of a cluster, and the hash slots of each.
pub(in crate::store::redis) struct Nodes {
    /// The owner of each hash slot, or [`UNKNOWN`].
    owners: Box<[AtomicU16]>,
    /// Every master that was ever seen. It keeps its place, so that an id always stands for the same address.
    masters: Mutex<Vec<Address>>,
    /// Nodes that have been in the cluster, with the nodes of the last reply first.
    members: Mutex<Vec<Address>>,
    /// The nodes of the URL. Any other node has the settings of the first.
    named: Vec<ConnectionInfo>,
    connector: Connector,
}

impl Nodes {
    pub(super) fn new(named: Vec<ConnectionInfo>, connector: Connector) -> Self {
        Self {
            owners: (0..HASH_SLOTS).map(|_| AtomicU16::new(UNKNOWN)).collect(),
            masters: Mutex::default(),
            members: Mutex::default(),
            named,
            connector,
        }
    }

    /// The owner of a hash slot, if it is known. It may have lost the hash slot since; then it replies
    /// `MOVED`.
    pub(in crate::store::redis) fn owner(&self, hash_slot: u16) -> Option<NodeId> {
        let owner = self.owners[usize::from(hash_slot)].load(Ordering::Relaxed);
        (owner != UNKNOWN).then_some(NodeId(owner))
    }

    /// The first hash slots of a master that follow each other, by which an operator finds it. All, if it has
    /// none.
    pub(in crate::store::redis) fn slots_of(&self, node: NodeId) -> HashSlots {
        let is_of = |hash_slot: &u16| self.owner(*hash_slot) == Some(node);
        let found = (0..HASH_SLOTS).find(is_of);
        let last = |first| (first..HASH_SLOTS).take_while(is_of).last().unwrap_or(first);
        found.map_or(ALL_SLOTS, |first| (first, last(first)))
    }

    /// Whether a master has any hash slot.
    pub(in crate::store::redis) fn has_slots(&self, node: NodeId) -> bool {
        self.owners.iter().any(|owner| owner.load(Ordering::Relaxed) == node.0)
    }

    /// How to connect to a master.
    pub(in crate::store::redis) fn server(&self, node: NodeId) -> Option<Server> {
        let settings = self.settings(&self.address(node)?)?;
        Some(Server { settings, connector: self.connector.clone(), address: None })
    }

    /// Finds the cluster by the first known node that replies, and connects to its masters. A master that
    /// cannot be reached is no error.
    pub(super) async fn connect(&self) -> RedisResult<Found> {
        let (address, connection, slots) = find(&self.known(), &self.connector).await?;
        // The members are noted even if no part of the cluster serves yet.
        self.note_members(&slots);
        let mut masters: Vec<NodeId> = slots.iter().map(|of| self.id_of(&of.owner)).collect();
        masters.sort_unstable();
        masters.dedup();
        let queried = self.id_of(&address);
        let mut attempts = JoinSet::new();
        for master in masters.iter().copied().filter(|master| *master != queried) {
            if let Some(server) = self.server(master) {
                attempts.spawn(async move { (master, server.connect().await) });
            }
        }
        let mut servers = attempts.join_all().await;
        servers.extend(masters.contains(&queried).then_some((queried, Ok(connection))));
        Ok(Found { servers, slots })
    }

    /// Learns the owners of all hash slots from a master.
    pub(in crate::store::redis) async fn learn_from(
        &self,
        node: NodeId,
        server: &ServerConnection,
    ) -> RedisResult<()> {
        let Some(address) = self.address(node) else { return Ok(()) };
        self.note_owners(&slots_known_to(&address, server).await?);
        Ok(())
    }

    /// Learns the owner of a hash slot from a redirect by `from`. Returns the node that the redirect names:
    /// for `ASK`, a node that has the key, but not yet the hash slot.
    pub(in crate::store::redis) fn learn(
        &self,
        hash_slot: u16,
        from: NodeId,
        redirect: &RedisError,
    ) -> Option<NodeId> {
        let target = self.id_of(&Address::redirected(redirect, &self.address(from)?)?);
        if redirect.code() == Some("MOVED") {
            self.owners[usize::from(hash_slot)].store(target.0, Ordering::Relaxed);
        }
        Some(target)
    }

    fn settings(&self, Address { host, port }: &Address) -> Option<ConnectionInfo> {
        Some(server_at(self.named.first()?, host, *port))
    }

    /// The nodes to query for the cluster: the nodes of the URL, and nodes that were in the cluster, in case
    /// that the nodes of the URL are gone.
    pub(super) fn known(&self) -> Vec<ConnectionInfo> {
        let members = self.members.lock();
        let mut known = self.named.clone();
        for member in members.iter().filter_map(|member| self.settings(member)) {
            if !known.iter().any(|other| other.addr() == member.addr()) {
                known.push(member);
            }
        }
        known
    }

    /// Notes the nodes of the cluster. Earlier nodes stay: the node that replied may have left the cluster.
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

    /// Replaces the owners of all hash slots.
    pub(in crate::store::redis) fn note_owners(&self, slots: &[OwnedSlots]) {
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

    fn address(&self, node: NodeId) -> Option<Address> {
        self.masters.lock().get(node.index()).cloned()
    }

    /// The id of the master at an address.
    pub(in crate::store::redis) fn id_of(&self, address: &Address) -> NodeId {
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
            assert_eq!(range_of_slot(hash_slot_of_key(key.as_bytes())), range, "{key}");
        }
    }

    #[test]
    fn a_redirect_names_the_owner_of_one_hash_slot() {
        use crate::store::redis::error::tests::error;
        use crate::store::redis::topology::tests::nodes;

        let (nodes, address) = (nodes(), |host: &str| Address { host: host.to_owned(), port: 1 });
        let owned =
            |first, last, host| OwnedSlots { first, last, owner: address(host), replicas: Vec::new() };
        nodes.note_owners(&[owned(0, 99, "a"), owned(101, 200, "b")]);
        let [a, b, c] = ["a", "b", "c"].map(|host| nodes.id_of(&address(host)));
        assert_eq!(nodes.learn(98, a, &error("ASK 98 b:1")), Some(b));
        assert_eq!(nodes.learn(99, a, &error("MOVED 99 c:1")), Some(c));
        let owners = [0, 98, 99, 100, 200].map(|hash_slot| nodes.owner(hash_slot));
        assert_eq!(owners, [Some(a), Some(a), Some(c), None, Some(b)]);
        assert_eq!(nodes.learn(0, b, &error("MOVED 0 :1")), Some(b), "it leaves out its host name");
        assert_eq!(nodes.learn(0, b, &error("TRYAGAIN")), None);
    }
}
