//! Topologies: a single server, a master that Sentinel names, or a cluster; from a URL to a connection.

mod client;
mod cluster;
mod hosts;
mod nodes;
mod sentinel;
mod server;
mod url;

use std::sync::Arc;

use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::{Client, Cmd, ConnectionInfo, RedisResult, Value};
use tokio::runtime::Handle;

pub(super) use self::client::{TlsRoots, is_tls};
use self::client::{connection_config, install_crypto_provider, node_client, open_client, tcp_settings};
use self::cluster::RedirectingCluster;
use self::hosts::Hosts;
pub(super) use self::nodes::{
    Nodes, SLOT_RANGES, hash_slot_of_key, hash_slot_of_tag, key_in_each_range, range_of_slot,
};
use self::sentinel::{Watcher, master};
pub(super) use self::server::{Connection, ConnectionId, NodeId, ServerConnection};
use self::url::{Url, invalid_settings};
use super::error::RedisConfigError;
use super::timeouts::Timeouts;

/// A connection that many calls share.
#[derive(Clone)]
pub(super) enum RedisConnection {
    Single(ServerConnection),
    Cluster(RedirectingCluster),
}

impl RedisConnection {
    /// Sends one command. Errors of the server, which the client crate returns as values, become errors.
    pub(super) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Single(connection) => connection.send(command).await,
            // In a box: it may connect to another node, and the largest of all cases makes the size of every call.
            Self::Cluster(connection) => Box::pin(connection.send(command)).await,
        }
    }
}

/// How to reach the servers.
pub(super) struct Topology {
    servers: Servers,
    is_tls: bool,
    /// Known hosts, which every attempt to connect resolves.
    hosts: Hosts,
}

enum Servers {
    Single(Box<Client>),
    /// The master that Sentinel names, looked up again at every attempt to connect. One client per sentinel, because one
    /// client for all would wait at every attempt for the first sentinel that hangs.
    Sentinel(Vec<Watcher>),
    Cluster {
        client: Box<ClusterClient>,
        /// Connection settings of one node, from which those of any other node follow.
        pattern: Box<ConnectionInfo>,
        tls_roots: TlsRoots,
    },
}

impl Topology {
    /// Parses a URL. Resolves no host, so that no caller waits for DNS.
    pub(super) fn parse(
        url: &str,
        timeouts: Timeouts,
        tls_roots: &TlsRoots,
    ) -> Result<Self, RedisConfigError> {
        if is_tls(url) {
            install_crypto_provider()?;
        }
        let Url { is_tls, servers } = Url::parse(url)?;
        let (servers, hosts) = match servers {
            url::Servers::Single(info) => {
                let hosts = Hosts::of([&info]);
                let client = open_client(info, tls_roots).map_err(invalid_settings)?;
                (Servers::Single(Box::new(client)), hosts)
            }
            url::Servers::Sentinel { nodes, service } => {
                let watchers = nodes.iter().map(|node| Watcher::new(node, &service, is_tls, tls_roots));
                let watchers = watchers.collect::<RedisResult<_>>().map_err(invalid_settings)?;
                (Servers::Sentinel(watchers), Hosts::of(&nodes))
            }
            url::Servers::Cluster(nodes) => {
                let hosts = Hosts::of(&nodes);
                (Servers::cluster(nodes, is_tls, timeouts, tls_roots)?, hosts)
            }
        };
        Ok(Self { servers, is_tls, hosts })
    }

    pub(super) const fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster { .. })
    }

    /// Whether calls go over plain sockets.
    pub(super) fn is_plain(&self) -> bool {
        cfg!(unix) && !self.is_tls
    }

    /// The masters of a cluster, without connections yet. `renew` is called when a connection to one is made or gone.
    pub(super) fn nodes(
        &self,
        timeouts: Timeouts,
        renew: impl Fn(NodeId) + Send + Sync + 'static,
        runtime: &Handle,
    ) -> Option<Arc<Nodes>> {
        let Servers::Cluster { pattern, tls_roots, .. } = &self.servers else { return None };
        let (pattern, tls_roots) = (pattern.clone(), tls_roots.clone());
        let connect_to = move |host: &str, port| node_client(&pattern, host, port, &tls_roots);
        Some(Arc::new(Nodes::new(Box::new(connect_to), timeouts, Box::new(renew), runtime.clone())))
    }

    /// Connects once.
    pub(super) async fn connect(&mut self, timeouts: Timeouts) -> RedisResult<RedisConnection> {
        // At the same time, so that the reason is known when the attempt fails.
        let lookup = self.hosts.lookup();
        match self.servers.connect(timeouts).await {
            // A server replied, so its host resolves.
            Err(error) if error.code().is_none() => Err(lookup.unresolved().await.unwrap_or(error)),
            result => result,
        }
    }
}

impl Servers {
    fn cluster(
        nodes: Vec<ConnectionInfo>,
        is_tls: bool,
        timeouts: Timeouts,
        tls_roots: &TlsRoots,
    ) -> Result<Self, RedisConfigError> {
        let pattern = Box::new(nodes[0].clone());
        // The client's own defaults wait without end for a node that does not reply. No retries: a request that it would
        // send again might have been charged.
        let builder = ClusterClientBuilder::new(nodes)
            .connection_timeout(timeouts.connect)
            .response_timeout(timeouts.deadline)
            .overall_response_timeout(Some(timeouts.deadline))
            .retries(0)
            .tcp_settings(tcp_settings());
        #[cfg(feature = "redis-tls")]
        let builder = match tls_roots.certificates() {
            Some(certificates) if is_tls => builder.certs(certificates),
            _ => builder,
        };
        #[cfg(not(feature = "redis-tls"))]
        let _ = is_tls;
        let client = Box::new(builder.build().map_err(invalid_settings)?);
        Ok(Self::Cluster { client, pattern, tls_roots: tls_roots.clone() })
    }

    async fn connect(&mut self, timeouts: Timeouts) -> RedisResult<RedisConnection> {
        let client = match self {
            Self::Cluster { client, pattern, tls_roots } => {
                let cluster = client.get_async_connection().await?;
                let (pattern, tls_roots) = (pattern.clone(), tls_roots.clone());
                let connect_to = move |host: &str, port| node_client(&pattern, host, port, &tls_roots);
                return Ok(RedisConnection::Cluster(RedirectingCluster::new(
                    cluster,
                    Box::new(connect_to),
                    connection_config(timeouts),
                )));
            }
            Self::Sentinel(sentinels) => &master(sentinels, timeouts.connect).await?,
            Self::Single(client) => &**client,
        };
        Ok(RedisConnection::Single(ServerConnection::open(client, timeouts).await?))
    }
}
