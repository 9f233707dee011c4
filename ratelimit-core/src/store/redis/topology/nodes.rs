//! The hash slots of a cluster, in ranges that fail independently, and the masters that own them.
//!
//! The client crate's cluster connection takes 6 to 8 µs of processor time per command. So each lane sends calls to a known master over a
//! connection of its own. Everything unusual is left to the cluster connection: redirects, unknown owners, and masters to
//! which there is no connection at the moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::aio::ConnectionLike;
use redis::cluster_async::ClusterConnection;
use redis::{Client, FromRedisValue, RedisResult, Value};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use super::cluster::ConnectTo;
use super::server::NodeId;
use crate::store::redis::timeouts::Timeouts;

/// Number of ranges into which the hash slots of a cluster are divided, so that a hanging node does not affect the others. A single
/// server is one range.
pub(in crate::store::redis) const SLOT_RANGES: usize = 64;

/// Number of hash slots in a cluster.
const HASH_SLOTS: u16 = 16_384;

/// Minimum time between two attempts to connect to one server, or to read the owners of the hash slots.
pub(in crate::store::redis) const RETRY_INTERVAL: Duration = Duration::from_millis(100);

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
    /// Host and port of each master. They keep their place, so that an id always names the same address.
    masters: Mutex<Vec<(String, u16)>>,
    /// Reads the owners of the hash slots; that of the present connection.
    cluster: Mutex<Option<ClusterConnection>>,
    is_refreshing: AtomicBool,
    connect_to: Box<ConnectTo>,
    timeouts: Timeouts,
    /// Callers of this are on other threads.
    runtime: Handle,
}

impl Nodes {
    pub(super) fn new(connect_to: Box<ConnectTo>, timeouts: Timeouts, runtime: Handle) -> Self {
        Self {
            owners: (0..HASH_SLOTS).map(|_| AtomicU16::new(UNKNOWN)).collect(),
            masters: Mutex::default(),
            cluster: Mutex::default(),
            is_refreshing: AtomicBool::new(false),
            connect_to,
            timeouts,
            runtime,
        }
    }

    /// The owner of a hash slot, if it is known. It may have lost the hash slot since; then it replies `MOVED`.
    pub(in crate::store::redis) fn owner(&self, hash_slot: u16) -> Option<NodeId> {
        let owner = self.owners[usize::from(hash_slot)].load(Ordering::Relaxed);
        (owner != UNKNOWN).then_some(NodeId(owner))
    }

    /// Whether a master has any hash slot.
    pub(in crate::store::redis) fn has_slots(&self, node: NodeId) -> bool {
        self.owners.iter().any(|owner| owner.load(Ordering::Relaxed) == node.0)
    }

    /// Reads the owners anew, by another cluster connection.
    pub(in crate::store::redis) fn start_over(self: &Arc<Self>, cluster: ClusterConnection) {
        *self.cluster.lock() = Some(cluster);
        self.refresh();
    }

    /// A client of a master.
    pub(in crate::store::redis) fn client_of(&self, node: NodeId) -> Option<RedisResult<Client>> {
        let masters = self.masters.lock();
        let (host, port) = masters.get(node.index())?;
        Some((self.connect_to)(host, *port))
    }

    /// Reads the owners of all hash slots in the background, unless that is being done.
    pub(in crate::store::redis) fn refresh(self: &Arc<Self>) {
        if self.is_refreshing.swap(true, Ordering::Relaxed) {
            return;
        }
        let nodes = Arc::clone(self);
        self.runtime.spawn(async move {
            // Without owners requests go over the cluster connection, and each of their batches asks for another attempt.
            let _ = timeout(nodes.timeouts.connect, nodes.read_owners()).await;
            sleep(RETRY_INTERVAL).await;
            nodes.is_refreshing.store(false, Ordering::Relaxed);
        });
    }

    async fn read_owners(&self) -> RedisResult<()> {
        let cluster = self.cluster.lock().clone();
        let Some(mut cluster) = cluster else { return Ok(()) };
        let mut command = redis::cmd("CLUSTER");
        command.arg("SLOTS");
        let reply = cluster.req_packed_command(&command).await?.extract_error()?;
        let entries = Vec::<Value>::from_redis_value(reply)?;
        let mut owners = vec![UNKNOWN; usize::from(HASH_SLOTS)];
        for entry in entries.into_iter().filter_map(parse_entry) {
            let (first, last, host, port) = entry;
            if let Some(range) = owners.get_mut(usize::from(first)..=usize::from(last)) {
                range.fill(self.id_of(host, port).0);
            }
        }
        for (known, &owner) in self.owners.iter().zip(&owners) {
            known.store(owner, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The id of the master at an address.
    fn id_of(&self, host: String, port: u16) -> NodeId {
        let mut masters = self.masters.lock();
        let known = masters.iter().position(|(known, number)| *known == host && *number == port);
        let index = known.unwrap_or_else(|| {
            masters.push((host, port));
            masters.len() - 1
        });
        NodeId(u16::try_from(index).unwrap_or(UNKNOWN))
    }
}

/// First hash slot, last hash slot, and the master's host and port. `None` for a master that does not say its host.
fn parse_entry(entry: Value) -> Option<(u16, u16, String, u16)> {
    let mut parts = Vec::<Value>::from_redis_value(entry).ok()?.into_iter();
    // Read as i64, because the client crate cuts a number that does not fit.
    let number = |value| u16::try_from(i64::from_redis_value(value).ok()?).ok();
    let first = number(parts.next()?)?;
    let last = number(parts.next()?)?;
    let mut master = Vec::<Value>::from_redis_value(parts.next()?).ok()?.into_iter();
    let host = String::from_redis_value(master.next()?).ok()?;
    let port = number(master.next()?)?;
    let is_known = !host.is_empty() && host != "?";
    (is_known && first <= last).then_some((first, last, host, port))
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

    fn entry(first: i64, last: i64, host: Value, port: i64) -> Value {
        let master = Value::Array(vec![host, Value::Int(port), Value::BulkString(b"id".to_vec())]);
        Value::Array(vec![Value::Int(first), Value::Int(last), master])
    }

    #[test]
    fn an_entry_without_a_host_or_with_odd_numbers_is_ignored() {
        let host = || Value::BulkString(b"10.0.0.1".to_vec());
        assert_eq!(parse_entry(entry(0, 99, host(), 7000)), Some((0, 99, "10.0.0.1".to_owned(), 7000)));
        for odd in [
            entry(0, 99, Value::BulkString(Vec::new()), 7000),
            entry(0, 99, Value::BulkString(b"?".to_vec()), 7000),
            entry(0, 99, Value::Nil, 7000),
            entry(9, 3, host(), 7000),
            entry(0, 99, host(), 70_000),
            entry(-1, 99, host(), 7000),
            Value::Array(vec![Value::Int(0)]),
            Value::Okay,
        ] {
            assert_eq!(parse_entry(odd.clone()), None, "{odd:?}");
        }
    }
}
