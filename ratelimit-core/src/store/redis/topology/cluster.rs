//! A connection to a cluster: finds the node of each key, sends each command once, and follows redirects.
//!
//! It connects to all masters once. A master to which there is no connection is tried again when a command
//! needs it, at most every 100 ms, and nothing is tried in the background: while a part of the cluster is
//! out, the supervisor paces the attempts, as those to a single server. A command whose connection was lost
//! before the reply is not sent again, since it is unknown whether it ran.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::{Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, FromRedisValue, RedisError, RedisResult, Value};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::connector::{Connector, server_at};
use super::server::ServerConnection;
use crate::store::redis::error::is_lost;

/// Minimum time between two attempts to connect to one server, or to read the owners of the hash slots.
pub(in crate::store::redis) const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Longest time after which another known node is asked as well where the cluster is.
const STAGGER: Duration = Duration::from_millis(50);

/// Host and port of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Address {
    fn of(server: &ConnectionInfo) -> Option<Self> {
        match server.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some(Self { host: host.clone(), port: *port })
            }
            _ => None,
        }
    }

    /// The node that a redirect by `from` names. A node that does not know its own host name leaves it out.
    fn redirected(error: &RedisError, from: &Self) -> Option<Self> {
        let (name, _) = error.redirect_node()?;
        let (host, port) = name.rsplit_once(':')?;
        let host = if host.is_empty() { &from.host } else { host };
        Some(Self { host: host.to_owned(), port: port.parse().ok()? })
    }
}

/// The master of some hash slots, and its replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnedSlots {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) owner: Address,
    pub(super) replicas: Vec<Address>,
}

/// A connection that many calls share.
#[derive(Clone)]
pub(in crate::store::redis) struct ClusterConnection(Arc<ClusterState>);

struct ClusterState {
    connector: Connector,
    /// Settings of one node, from which those of any other node follow.
    pattern: ConnectionInfo,
    owners: Mutex<Owners>,
    nodes: Mutex<HashMap<Address, Arc<Node>>>,
    /// Which node is asked next for the owners.
    next: AtomicUsize,
}

#[derive(Default)]
struct Owners {
    slots: Vec<OwnedSlots>,
    /// What redirects have told since.
    moved: HashMap<u16, Address>,
}

/// A node. One attempt to connect runs at a time, and calls that need the connection meanwhile wait for it.
#[derive(Default)]
struct Node(tokio::sync::Mutex<NodeState>);

#[derive(Default)]
enum NodeState {
    #[default]
    Untried,
    Connected(ServerConnection),
    Failed(Instant, RedisError),
}

impl ClusterConnection {
    /// Connects to the masters of the cluster to which these nodes belong. A master that is out does not
    /// matter.
    pub(super) async fn open(known: &[ConnectionInfo], connector: &Connector) -> RedisResult<Self> {
        let (address, connection, slots) = find(known, connector).await?;
        let shared = ClusterState {
            connector: connector.clone(),
            pattern: known.first().cloned().ok_or_else(|| no_node("the URL names no node"))?,
            owners: Mutex::default(),
            nodes: Mutex::default(),
            next: AtomicUsize::new(0),
        };
        let mut others: Vec<Address> = Vec::new();
        for owned in &slots {
            if owned.owner != address && !others.contains(&owned.owner) {
                others.push(owned.owner.clone());
            }
        }
        if slots.iter().any(|owned| owned.owner == address) {
            let node = Node(tokio::sync::Mutex::new(NodeState::Connected(connection)));
            shared.nodes.lock().insert(address, Arc::new(node));
        }
        shared.owners.lock().slots = slots;
        let cluster = Self(Arc::new(shared));
        let mut attempts = JoinSet::new();
        for other in others {
            let cluster = cluster.clone();
            attempts.spawn(async move { drop(cluster.connection_to(&other).await) });
        }
        attempts.join_all().await;
        Ok(cluster)
    }

    /// Sends one command to the node of a hash slot.
    pub(super) async fn send(&self, hash_slot: u16, command: &Cmd) -> RedisResult<Value> {
        let owner = self.0.owners.lock().of(hash_slot);
        let Some(owner) = owner else {
            return Err(no_node("no node is known to have the hash slot of the key"));
        };
        let error = match self.connection_to(&owner).await?.send(command).await {
            Ok(reply) => return Ok(reply),
            Err(error) => error,
        };
        match (error.code(), Address::redirected(&error, &owner)) {
            (Some("ASK"), Some(target)) => return self.send_to_target(&target, command).await,
            // The next attempt reaches that node.
            (Some("MOVED"), Some(target)) => _ = self.0.owners.lock().moved.insert(hash_slot, target),
            _ if is_lost(&error) => self.forget(&owner),
            _ => {}
        }
        Err(error)
    }

    /// Sends one command to a node that already has its key but not yet the hash slot.
    async fn send_to_target(&self, target: &Address, command: &Cmd) -> RedisResult<Value> {
        let connection = self.connection_to(target).await?;
        let reply = connection.send_together(&[&redis::cmd("ASKING"), command]).await;
        if reply.as_ref().is_err_and(is_lost) {
            self.forget(target);
        }
        reply
    }

    /// The replies of all connected masters that reply.
    pub(super) async fn send_to_all(&self, command: &Cmd) -> Vec<Value> {
        let mut replies = JoinSet::new();
        for (_, connection) in self.connected() {
            let command = command.clone();
            replies.spawn(async move { connection.send(&command).await });
        }
        replies.join_all().await.into_iter().filter_map(Result::ok).collect()
    }

    /// Reads the owners of all hash slots anew from one of the connected masters.
    pub(super) async fn read_owners(&self) -> RedisResult<Vec<OwnedSlots>> {
        let mut connected = self.connected();
        let count = connected.len().max(1);
        connected.rotate_left(self.0.next.fetch_add(1, Ordering::Relaxed) % count);
        let mut failure = no_node("there is no connection to any node");
        for (address, connection) in connected {
            // A master that hangs is noticed by the requests that wait for it.
            match timeout(self.0.connector.timeouts.deadline, slots_known_to(&address, &connection)).await {
                Ok(Ok(slots)) => {
                    *self.0.owners.lock() = Owners { slots: slots.clone(), moved: HashMap::new() };
                    // A node that has left the cluster may go on answering from what it knew.
                    self.0.nodes.lock().retain(|known, _| slots.iter().any(|slots| slots.owner == *known));
                    return Ok(slots);
                }
                Ok(Err(error)) => failure = error,
                Err(_) => failure = no_node("a node does not answer in time"),
            }
        }
        Err(failure)
    }

    /// The owners that were read last.
    pub(super) fn owners(&self) -> Vec<OwnedSlots> {
        self.0.owners.lock().slots.clone()
    }

    /// Masters that are connected at the moment.
    pub(super) fn connected(&self) -> Vec<(Address, ServerConnection)> {
        let nodes = self.0.nodes.lock();
        let connected = nodes.iter().filter_map(|(address, node)| match &*node.0.try_lock().ok()? {
            NodeState::Connected(connection) => Some((address.clone(), connection.clone())),
            NodeState::Untried | NodeState::Failed(..) => None,
        });
        connected.collect()
    }

    /// Forgets a lost connection.
    pub(super) fn forget(&self, address: &Address) {
        self.0.nodes.lock().remove(address);
    }

    async fn connection_to(&self, address: &Address) -> RedisResult<ServerConnection> {
        let node = Arc::clone(self.0.nodes.lock().entry(address.clone()).or_default());
        if let Ok(state) = node.0.try_lock()
            && let NodeState::Connected(connection) = &*state
        {
            return Ok(connection.clone());
        }
        let (cluster, address) = (self.clone(), address.clone());
        // A task of its own, since a command gives up before an attempt to connect does.
        let attempt = tokio::spawn(async move { cluster.connect_to(&node, &address).await });
        attempt.await.unwrap_or_else(|_| Err(no_node("the attempt to connect has panicked")))
    }

    async fn connect_to(&self, node: &Node, address: &Address) -> RedisResult<ServerConnection> {
        let mut state = node.0.lock().await;
        match &*state {
            NodeState::Connected(connection) => return Ok(connection.clone()),
            NodeState::Failed(at, error) if at.elapsed() < RETRY_INTERVAL => return Err(error.clone()),
            NodeState::Untried | NodeState::Failed(..) => {}
        }
        let server = server_at(&self.0.pattern, &address.host, address.port);
        let opened = ServerConnection::open(&server, &self.0.connector).await;
        *state = match &opened {
            Ok(connection) => NodeState::Connected(connection.clone()),
            Err(error) => NodeState::Failed(Instant::now(), error.clone()),
        };
        opened
    }
}

impl Owners {
    fn of(&self, hash_slot: u16) -> Option<Address> {
        let owned = || self.slots.iter().find(|owned| (owned.first..=owned.last).contains(&hash_slot));
        self.moved.get(&hash_slot).or_else(|| owned().map(|owned| &owned.owner)).cloned()
    }
}

/// The first of these nodes that tells the hash slots; the next is asked when one takes long or fails.
async fn find(
    known: &[ConnectionInfo],
    connector: &Connector,
) -> RedisResult<(Address, ServerConnection, Vec<OwnedSlots>)> {
    let (mut waiting, mut attempts) = (known.iter(), JoinSet::new());
    let mut failure = no_node("the URL names no node");
    // All of them in the time of one attempt to connect.
    let stagger = STAGGER.min(connector.timeouts.connect / u32::try_from(known.len()).unwrap_or(u32::MAX));
    loop {
        if let Some(server) = waiting.next() {
            let (server, connector) = (server.clone(), connector.clone());
            attempts.spawn(async move {
                let connection = ServerConnection::open(&server, &connector).await?;
                let address = Address::of(&server).ok_or_else(|| no_node("a node without a port"))?;
                let slots = slots_known_to(&address, &connection).await?;
                Ok::<_, RedisError>((address, connection, slots))
            });
        } else if attempts.is_empty() {
            return Err(failure);
        }
        let pause = if waiting.len() == 0 { connector.timeouts.connect } else { stagger };
        match timeout(pause, attempts.join_next()).await {
            Ok(Some(Ok(Ok(found)))) => return Ok(found),
            // What a server says tells more than that another cannot be reached.
            Ok(Some(Ok(Err(error)))) if failure.code().is_none() => failure = error,
            _ => {}
        }
    }
}

/// What one node knows of the owners of hash slots.
async fn slots_known_to(address: &Address, connection: &ServerConnection) -> RedisResult<Vec<OwnedSlots>> {
    let reply = connection.send(redis::cmd("CLUSTER").arg("SLOTS")).await?;
    let entries = Vec::<Value>::from_redis_value(reply)?;
    let slots: Vec<_> = entries.into_iter().filter_map(|entry| parse_entry(entry, &address.host)).collect();
    if slots.is_empty() { Err(no_node("the node knows no owner of a hash slot")) } else { Ok(slots) }
}

/// First hash slot, last hash slot, their master, and its replicas. `None` for a master that does not know
/// its host; one that leaves it out has the host that was asked.
fn parse_entry(entry: Value, asked: &str) -> Option<OwnedSlots> {
    let mut parts = Vec::<Value>::from_redis_value(entry).ok()?.into_iter();
    // Read as i64, because the client crate cuts a number that does not fit.
    let number = |value| u16::try_from(i64::from_redis_value(value).ok()?).ok();
    let first = number(parts.next()?)?;
    let last = number(parts.next()?)?;
    let node = |node| {
        let mut node = Vec::<Value>::from_redis_value(node).ok()?.into_iter();
        let host = Option::<String>::from_redis_value(node.next()?).ok()?.unwrap_or_default();
        let port = number(node.next()?)?;
        let host = if host.is_empty() { asked.to_owned() } else { host };
        (host != "?").then_some(Address { host, port })
    };
    let owner = node(parts.next()?)?;
    let replicas = parts.filter_map(node).collect();
    (first <= last).then_some(OwnedSlots { first, last, owner, replicas })
}

fn no_node(problem: &'static str) -> RedisError {
    RedisError::from((ErrorKind::ClusterConnectionNotFound, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(first: i64, last: i64, host: Value, port: i64) -> Value {
        let master = Value::Array(vec![host, Value::Int(port), Value::BulkString(b"id".to_vec())]);
        Value::Array(vec![Value::Int(first), Value::Int(last), master])
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn owned(first: u16, last: u16, host: &str, port: u16) -> OwnedSlots {
        let owner = Address { host: host.to_owned(), port };
        OwnedSlots { first, last, owner, replicas: Vec::new() }
    }

    #[test]
    fn an_entry_with_an_unknown_host_or_with_odd_numbers_is_ignored() {
        let parsed = |entry| parse_entry(entry, "asked");
        assert_eq!(parsed(entry(0, 99, text("10.0.0.1"), 7000)), Some(owned(0, 99, "10.0.0.1", 7000)));
        for odd in [
            entry(0, 99, text("?"), 7000),
            entry(9, 3, text("10.0.0.1"), 7000),
            entry(0, 99, text("10.0.0.1"), 70_000),
            entry(-1, 99, text("10.0.0.1"), 7000),
            Value::Array(vec![Value::Int(0)]),
            Value::Okay,
        ] {
            assert_eq!(parsed(odd.clone()), None, "{odd:?}");
        }
    }

    #[test]
    fn a_master_that_leaves_out_its_host_has_the_one_that_was_asked() {
        for host in [text(""), Value::Nil] {
            assert_eq!(parse_entry(entry(0, 99, host, 7000), "asked"), Some(owned(0, 99, "asked", 7000)));
        }
    }

    #[test]
    fn a_redirect_tells_the_owner_of_one_hash_slot() {
        let mut owners =
            Owners { slots: vec![owned(0, 99, "a", 1), owned(101, 200, "b", 2)], moved: HashMap::new() };
        let moved = Address { host: "c".to_owned(), port: 3 };
        owners.moved.insert(99, moved.clone());
        let of = |hash_slot| owners.of(hash_slot).map(|owner| owner.host);
        assert_eq!([of(0), of(98), of(200)].map(Option::unwrap), ["a", "a", "b"]);
        assert_eq!(owners.of(99), Some(moved));
        assert_eq!(of(100), None);
    }
}
