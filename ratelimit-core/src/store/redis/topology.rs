//! Topologies: a single server, a master that Sentinel names, or a cluster; from a URL to a connection.

mod cluster;
mod connector;
mod hosts;
mod nodes;
mod refusal;
mod sentinel;
mod server;
#[cfg(feature = "redis-tls-no-provider")]
mod tls;
mod url;

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use redis::{ConnectionInfo, RedisResult};

pub(super) use self::cluster::no_node;
use self::connector::Connector;
pub(super) use self::connector::is_tls;
use self::hosts::Hosts;
pub(super) use self::nodes::{
    Found, NodeId, Nodes, SLOT_RANGES, first_slot, hash_slot_of_key, hash_slot_of_tag, key_in_each_range,
    range_of_slot,
};
use self::sentinel::Sentinels;
pub(super) use self::server::{Server, ServerConnection};
#[cfg(feature = "redis-tls-no-provider")]
pub(super) use self::tls::Pem;
use self::tls::Tls;
pub(super) use self::tls::TlsSettings;
use self::url::Url;
use super::credentials::CredentialsSource;
use super::error::RedisConfigError;
use super::timeouts::Timeouts;

/// How to reach the servers.
pub(super) struct Topology {
    servers: Servers,
    connector: Connector,
}

/// Settings of connections to the servers. A node that the URL does not name has the settings of the first.
enum Servers {
    Single(Box<ConnectionInfo>),
    /// The master that Sentinel names, looked up again at every attempt to connect.
    Sentinel(Sentinels),
    Cluster(Arc<Nodes>),
}

/// How to connect, besides the URL.
pub(super) struct ConnectSettings {
    pub(super) timeouts: Timeouts,
    pub(super) tls: TlsSettings,
    pub(super) credentials: Option<CredentialsSource>,
}

impl Topology {
    /// Parses a URL. Resolves no host, so that no caller waits for DNS.
    pub(super) fn parse(url: &str, settings: ConnectSettings) -> Result<Self, RedisConfigError> {
        let timeouts = settings.timeouts;
        // TLS is validated first, since the client crate does not say which feature is missing.
        let tls = if is_tls(url) { Some(Tls::new(settings.tls, &timeouts)?) } else { None };
        let named = Url::parse(url)?.servers;
        let hosts = Hosts::of(named.nodes(), &timeouts);
        let credentials = settings.credentials.map(Arc::new);
        let connector = Connector { timeouts, hosts: Arc::new(hosts), tls, credentials };
        let servers = match named {
            url::NamedServers::Single(server) => Servers::Single(Box::new(server)),
            url::NamedServers::Sentinel { nodes, service } => {
                Servers::Sentinel(Sentinels::new(nodes, service))
            }
            url::NamedServers::Cluster(named) => {
                Servers::Cluster(Arc::new(Nodes::new(named, connector.clone())))
            }
        };
        Ok(Self { servers, connector })
    }

    /// The masters of a cluster.
    pub(super) fn nodes(&self) -> Option<Arc<Nodes>> {
        let Servers::Cluster(nodes) = &self.servers else { return None };
        Some(Arc::clone(nodes))
    }

    /// Learns of other sentinels while the connection serves. Never ends.
    pub(super) async fn look_around(&mut self) {
        let Servers::Sentinel(sentinels) = &mut self.servers else { return std::future::pending().await };
        sentinels.look_around(&self.connector).await;
    }

    /// Connects once.
    pub(super) async fn connect(&mut self) -> RedisResult<Found> {
        // Runs at the same time, so that the reason is known when the attempt fails.
        let unresolved = pin!(self.connector.hosts.unresolved());
        // In a box, since it is large.
        let connecting = Box::pin(self.servers.connect(&self.connector));
        let (result, unresolved) = match select(unresolved, connecting).await {
            // Without waiting for the attempt, whose timeout would end it later with a less exact error.
            Either::Left((Some(slow), _)) if slow.is_timeout() => return Err(slow),
            Either::Left((unresolved, connecting)) => (connecting.await, unresolved),
            Either::Right((Err(error), unresolved)) => (Err(error), unresolved.await),
            Either::Right((connection, _)) => return connection,
        };
        // If a server replied, its host resolves.
        result.map_err(|error| unresolved.filter(|_| error.code().is_none()).unwrap_or(error))
    }
}

impl Servers {
    async fn connect(&mut self, connector: &Connector) -> RedisResult<Found> {
        let single = match self {
            Self::Single(server) => ServerConnection::open(server, connector).await?,
            Self::Sentinel(sentinels) => sentinels.connect_to_master(connector).await?,
            Self::Cluster(nodes) => return nodes.connect().await,
        };
        Ok(Found { servers: vec![(NodeId::SINGLE, Ok(single))], slots: Vec::new() })
    }
}

/// The same names without TLS, whose values are never made.
#[cfg(not(feature = "redis-tls-no-provider"))]
mod tls {
    use std::convert::Infallible;

    use redis::RedisResult;
    use tokio::net::TcpStream;

    use crate::store::redis::error::RedisConfigError;
    use crate::store::redis::timeouts::Timeouts;

    /// Is never made.
    pub(super) type Handshake = Tls;

    /// Settings of the builder, of which there are none.
    #[derive(Clone, Default)]
    pub(in crate::store::redis) struct TlsSettings {}

    /// Is never made.
    #[derive(Clone)]
    pub(super) struct Tls(Infallible);

    impl Tls {
        pub(super) fn new(_: TlsSettings, _: &Timeouts) -> Result<Self, RedisConfigError> {
            let problem = "TLS is not built in; turn on the feature `redis-tls`".to_owned();
            Err(RedisConfigError::Url { problem })
        }

        #[allow(clippy::unused_async, reason = "as with the feature")]
        pub(super) async fn handshake(&self) -> RedisResult<Self> {
            match self.0 {}
        }

        #[allow(clippy::unused_async, reason = "as with the feature")]
        pub(super) async fn with(&self, _: &str, _: TcpStream) -> RedisResult<TcpStream> {
            match self.0 {}
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::store::redis::timeouts::tests::TIMEOUTS;

    /// Nodes of a cluster of which nothing is known yet.
    pub(in crate::store::redis) fn nodes() -> Arc<Nodes> {
        let settings = ConnectSettings { timeouts: TIMEOUTS, tls: TlsSettings::default(), credentials: None };
        Topology::parse("redis-cluster://127.0.0.1:1", settings).unwrap().nodes().unwrap()
    }

    /// The master at this port, and its reply to `CLUSTER SLOTS` if it has all hash slots.
    pub(in crate::store::redis) fn claim(nodes: &Nodes, port: u16) -> (NodeId, String) {
        let node = nodes.id_of(&cluster::Address { host: "127.0.0.1".to_owned(), port });
        (node, format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n"))
    }
}
