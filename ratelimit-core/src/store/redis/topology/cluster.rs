//! Finding a cluster: queries its nodes for the masters of all hash slots.

use std::time::Duration;

use redis::{ConnectionAddr, ConnectionInfo, ErrorKind, FromRedisValue, RedisError, RedisResult, Value};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::connector::Connector;
use super::server::ServerConnection;

/// Longest time before another known node is queried as well.
const STAGGER: Duration = Duration::from_millis(50);

/// Host and port of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::store::redis) struct Address {
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
    pub(super) fn redirected(error: &RedisError, from: &Self) -> Option<Self> {
        let (name, _) = error.redirect_node()?;
        let (host, port) = name.rsplit_once(':')?;
        let host = if host.is_empty() { &from.host } else { host };
        Some(Self { host: host.to_owned(), port: port.parse().ok()? })
    }
}

/// The master of some hash slots, and its replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store::redis) struct OwnedSlots {
    pub(in crate::store::redis) first: u16,
    pub(in crate::store::redis) last: u16,
    pub(super) owner: Address,
    pub(super) replicas: Vec<Address>,
}

/// The first of the known nodes that replies with the hash slots, its connection, and the hash slots. The
/// next node is queried when a node takes long or fails.
pub(super) async fn find(
    known: &[ConnectionInfo],
    connector: &Connector,
) -> RedisResult<(Address, ServerConnection, Vec<OwnedSlots>)> {
    let (mut waiting, mut attempts) = (known.iter(), JoinSet::new());
    let mut failure = no_node("the URL names no node");
    // All nodes are queried within the time of one attempt to connect.
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
            // The error of a server says more than an error of connecting.
            Ok(Some(Ok(Err(error)))) if failure.code().is_none() => failure = error,
            _ => {}
        }
    }
}

/// The owners of hash slots that one node knows.
pub(super) async fn slots_known_to(
    address: &Address,
    connection: &ServerConnection,
) -> RedisResult<Vec<OwnedSlots>> {
    let reply = connection.send(redis::cmd("CLUSTER").arg("SLOTS")).await?;
    let entries = Vec::<Value>::from_redis_value(reply)?;
    let slots: Vec<_> = entries.into_iter().filter_map(|entry| parse_entry(entry, &address.host)).collect();
    if slots.is_empty() { Err(no_node("the node knows no owner of a hash slot")) } else { Ok(slots) }
}

/// First hash slot, last hash slot, their master, and its replicas. `None` for a master that does not know
/// its host. A master that leaves its host out has the host that was queried.
fn parse_entry(entry: Value, queried: &str) -> Option<OwnedSlots> {
    let mut parts = Vec::<Value>::from_redis_value(entry).ok()?.into_iter();
    // Parses an i64, because the client crate truncates a number that does not fit.
    let number = |value| u16::try_from(i64::from_redis_value(value).ok()?).ok();
    let first = number(parts.next()?)?;
    let last = number(parts.next()?)?;
    let node = |node| {
        let mut node = Vec::<Value>::from_redis_value(node).ok()?.into_iter();
        let host = Option::<String>::from_redis_value(node.next()?).ok()?.unwrap_or_default();
        let port = number(node.next()?)?;
        let host = if host.is_empty() { queried.to_owned() } else { host };
        (host != "?").then_some(Address { host, port })
    };
    let owner = node(parts.next()?)?;
    let replicas = parts.filter_map(node).collect();
    (first <= last).then_some(OwnedSlots { first, last, owner, replicas })
}

pub(in crate::store::redis) fn no_node(problem: &'static str) -> RedisError {
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
        let parsed = |entry| parse_entry(entry, "queried");
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
    fn a_master_that_leaves_out_its_host_has_the_one_that_was_queried() {
        for host in [text(""), Value::Nil] {
            assert_eq!(parse_entry(entry(0, 99, host, 7000), "queried"), Some(owned(0, 99, "queried", 7000)));
        }
    }
}
