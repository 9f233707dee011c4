//! Topologies: a single server, a master that Sentinel names, or a cluster; from a URL to a connection.

mod client;
mod cluster;
mod hosts;
mod nodes;
mod sentinel;
mod server;

use std::sync::Arc;

use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::{Client, Cmd, ConnectionInfo, IntoConnectionInfo, RedisError, RedisResult, Value};
use tokio::runtime::Handle;

pub(super) use self::client::{TlsRoots, is_tls};
use self::client::{connection_config, install_crypto_provider, node_client, open_client, tcp_settings};
use self::cluster::RedirectingCluster;
use self::hosts::Hosts;
pub(super) use self::nodes::{
    Nodes, RETRY_INTERVAL, SLOT_RANGES, hash_slot_of_key, hash_slot_of_tag, key_in_each_range, range_of_slot,
};
use self::sentinel::{Watcher, master};
pub(super) use self::server::{CallReplies, Connection, ConnectionId, NodeId, ServerConnection};
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
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| invalid("there is no `://` behind a scheme"))?;
        // The client crate reads options from it, such as one that skips the check of certificates.
        if url.contains('#') {
            return Err(invalid(
                "a fragment (`#..`) has no meaning here; write a `#` in a password as `%23`",
            ));
        }
        let tls = is_tls(url);
        let plain = scheme.replacen("rediss", "redis", 1).replacen("valkeys", "valkey", 1);
        if tls {
            install_crypto_provider()?;
        }
        match plain.as_str() {
            "redis" | "valkey" | "unix" | "redis+unix" | "valkey+unix" => {
                let info = connection_info(url)?;
                let hosts = Hosts::of([&info]);
                let servers = Servers::Single(Box::new(client(info, tls_roots)?));
                Ok(Self { servers, hosts })
            }
            "redis-sentinel" => Self::sentinel(rest, tls, tls_roots),
            "redis-cluster" => Self::cluster(rest, tls, timeouts, tls_roots),
            _ => Err(invalid("unknown scheme")),
        }
    }

    fn sentinel(rest: &str, tls: bool, tls_roots: &TlsRoots) -> Result<Self, RedisConfigError> {
        let (hosts, path) =
            rest.split_once('/').ok_or_else(|| invalid("there is no service name behind the hosts"))?;
        let (service, db) = path.split_once('/').unwrap_or((path, ""));
        if service.is_empty() {
            return Err(invalid("there is no service name behind the hosts"));
        }
        let nodes = parse_nodes(hosts, db, tls)?;
        let watchers = nodes.iter().map(|node| Watcher::new(node, service, tls, tls_roots));
        let watchers = watchers.collect::<RedisResult<_>>().map_err(invalid_settings)?;
        Ok(Self { servers: Servers::Sentinel(watchers), hosts: Hosts::of(&nodes) })
    }

    fn cluster(
        rest: &str,
        tls: bool,
        timeouts: Timeouts,
        tls_roots: &TlsRoots,
    ) -> Result<Self, RedisConfigError> {
        let hosts = rest.split('/').next().unwrap_or_default();
        let nodes = parse_nodes(hosts, "", tls)?;
        let (pattern, hosts) = (Box::new(nodes[0].clone()), Hosts::of(&nodes));
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
            Some(certificates) if tls => builder.certs(certificates),
            _ => builder,
        };
        let client = Box::new(builder.build().map_err(invalid_settings)?);
        let servers = Servers::Cluster { client, pattern, tls_roots: tls_roots.clone() };
        Ok(Self { servers, hosts })
    }

    pub(super) const fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster { .. })
    }

    /// The masters of a cluster.
    pub(super) fn nodes(&self, timeouts: Timeouts, runtime: &Handle) -> Option<Arc<Nodes>> {
        let Servers::Cluster { pattern, tls_roots, .. } = &self.servers else { return None };
        let (pattern, tls_roots) = (pattern.clone(), tls_roots.clone());
        let connect_to = move |host: &str, port| node_client(&pattern, host, port, &tls_roots);
        Some(Arc::new(Nodes::new(Box::new(connect_to), timeouts, runtime.clone())))
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

fn client(info: ConnectionInfo, tls_roots: &TlsRoots) -> Result<Client, RedisConfigError> {
    open_client(info, tls_roots).map_err(invalid_settings)
}

/// The error of an invalid URL.
fn invalid(problem: &str) -> RedisConfigError {
    RedisConfigError::Url { problem: problem.to_owned() }
}

/// Wraps an error of the client crate, whose text does not repeat the URL.
#[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn invalid_settings(error: RedisError) -> RedisConfigError {
    RedisConfigError::Url { problem: error.to_string() }
}

fn connection_info(url: &str) -> Result<ConnectionInfo, RedisConfigError> {
    // The client crate only reports that a URL is invalid; this reports why.
    url::Url::parse(url).map_err(|error| invalid(&error.to_string()))?;
    url.into_connection_info().map_err(invalid_settings)
}

/// Parses `[user:password@]host:port,host:port` into the settings of each node.
fn parse_nodes(hosts: &str, db: &str, tls: bool) -> Result<Vec<ConnectionInfo>, RedisConfigError> {
    let (credentials, hosts) = hosts.rsplit_once('@').map_or(("", hosts), |(user, hosts)| (user, hosts));
    let scheme = if tls { "rediss" } else { "redis" };
    let at = if credentials.is_empty() { "" } else { "@" };
    hosts
        .split(',')
        .map(|host| connection_info(&format!("{scheme}://{credentials}{at}{host}/{db}")))
        .collect()
}
