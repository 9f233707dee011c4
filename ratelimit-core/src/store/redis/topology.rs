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
use redis::{Cmd, ConnectionInfo, RedisResult, Value};
use tokio::runtime::Handle;

use self::cluster::ClusterConnection;
pub(super) use self::cluster::RETRY_INTERVAL;
use self::connector::Connector;
pub(super) use self::connector::is_tls;
use self::hosts::Hosts;
pub(super) use self::nodes::{
    Nodes, SLOT_RANGES, hash_slot_of_key, hash_slot_of_tag, key_in_each_range, range_of_slot,
};
use self::sentinel::Sentinels;
pub(super) use self::server::{CallReplies, Connection, ConnectionId, NodeId, Server, ServerConnection};
#[cfg(feature = "redis-tls-no-provider")]
pub(super) use self::tls::Pem;
use self::tls::Tls;
pub(super) use self::tls::TlsSettings;
use self::url::Url;
use super::credentials::CredentialsSource;
use super::error::RedisConfigError;
use super::timeouts::Timeouts;

/// A connection that many calls share.
#[derive(Clone)]
pub(super) enum RedisConnection {
    Single(ServerConnection),
    Cluster(ClusterConnection),
}

impl RedisConnection {
    /// Sends one command for a key. Errors of the server, which the client crate returns as values, become
    /// errors.
    pub(super) async fn send(&self, key: &str, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Single(connection) => connection.send(command).await,
            // In a box: it may connect to another node, and the largest of all cases makes the size of every
            // call.
            Self::Cluster(connection) => Box::pin(connection.send(hash_slot_of_key(key), command)).await,
        }
    }

    /// The replies of all servers that reply.
    pub(super) async fn send_to_all(&self, command: &Cmd) -> Vec<Value> {
        match self {
            Self::Single(connection) => connection.send(command).await.into_iter().collect(),
            Self::Cluster(connection) => connection.send_to_all(command).await,
        }
    }
}

/// How to reach the servers.
pub(super) struct Topology {
    servers: Servers,
    connector: Connector,
}

/// Settings by which servers are connected to. A node that the URL does not name has those of the first.
enum Servers {
    Single(Box<ConnectionInfo>),
    /// The master that Sentinel names, looked up again at every attempt to connect.
    Sentinel(Sentinels),
    /// The nodes of the URL.
    Cluster(Vec<ConnectionInfo>),
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
        // Checked first, since the client crate does not say which feature is missing.
        let tls = if is_tls(url) { Some(Tls::new(settings.tls, &timeouts)?) } else { None };
        let (servers, hosts) = match Url::parse(url)?.servers {
            url::NamedServers::Single(server) => {
                let hosts = Hosts::of([&server], &timeouts);
                (Servers::Single(Box::new(server)), hosts)
            }
            url::NamedServers::Sentinel { nodes, service } => {
                let hosts = Hosts::of(&nodes, &timeouts);
                (Servers::Sentinel(Sentinels::new(nodes, service)), hosts)
            }
            url::NamedServers::Cluster(nodes) => {
                let hosts = Hosts::of(&nodes, &timeouts);
                (Servers::Cluster(nodes), hosts)
            }
        };
        let credentials = settings.credentials.map(Arc::new);
        let connector = Connector { timeouts, hosts: Arc::new(hosts), tls, credentials };
        Ok(Self { servers, connector })
    }

    pub(super) const fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster(..))
    }

    /// The masters of a cluster.
    pub(super) fn nodes(&self, runtime: &Handle) -> Option<Arc<Nodes>> {
        let Servers::Cluster(named) = &self.servers else { return None };
        Some(Arc::new(Nodes::new(named.first()?.clone(), self.connector.clone(), runtime.clone())))
    }

    /// Learns of other sentinels, as long as the connection serves. Never ends.
    pub(super) async fn look_around(&mut self) {
        let Servers::Sentinel(sentinels) = &mut self.servers else { return std::future::pending().await };
        sentinels.look_around(&self.connector).await;
    }

    /// Connects once. `nodes` has what was learned of a cluster.
    pub(super) async fn connect(&mut self, nodes: Option<&Nodes>) -> RedisResult<RedisConnection> {
        // At the same time, so that the reason is known when the attempt fails.
        let unresolved = pin!(self.connector.hosts.unresolved());
        // In a box, since it is large.
        let connecting = Box::pin(self.servers.connect(&self.connector, nodes));
        let (result, unresolved) = match select(unresolved, connecting).await {
            // Who waits for the attempt would not learn this from what ends it later.
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
    async fn connect(
        &mut self,
        connector: &Connector,
        nodes: Option<&Nodes>,
    ) -> RedisResult<RedisConnection> {
        Ok(match self {
            Self::Single(server) => RedisConnection::Single(ServerConnection::open(server, connector).await?),
            Self::Sentinel(sentinels) => {
                RedisConnection::Single(sentinels.connect_to_master(connector).await?)
            }
            Self::Cluster(named) => {
                let mut known = named.clone();
                let members = nodes.into_iter().flat_map(Nodes::members);
                known.extend(members.filter(|member| !named.iter().any(|of| of.addr() == member.addr())));
                let cluster = ClusterConnection::open(&known, connector).await?;
                // Also of a cluster of which no part serves yet.
                if let Some(nodes) = nodes {
                    nodes.note_members(&cluster.owners());
                }
                RedisConnection::Cluster(cluster)
            }
        })
    }
}

/// Without TLS: the same names, and never a connection.
#[cfg(not(feature = "redis-tls-no-provider"))]
mod tls {
    use std::convert::Infallible;

    use redis::RedisResult;
    use tokio::net::TcpStream;

    use crate::store::redis::error::RedisConfigError;
    use crate::store::redis::timeouts::Timeouts;

    /// Is never made.
    pub(super) type Handshake = Tls;

    /// What the builder was given: nothing.
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
