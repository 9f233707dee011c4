//! Topologies: a single server, a master that Sentinel names, or a cluster; from a URL to a connection.

mod cluster;
mod connector;
mod hosts;
mod nodes;
mod sentinel;
mod server;
#[cfg_attr(not(feature = "redis-tls-no-provider"), path = "topology/tls/absent.rs")]
mod tls;

use std::sync::Arc;

use redis::{Cmd, ConnectionInfo, IntoConnectionInfo, RedisError, RedisResult, Value};
use tokio::runtime::Handle;

use self::cluster::ClusterConnection;
use self::connector::Connector;
pub(super) use self::connector::is_tls;
use self::hosts::Hosts;
pub(super) use self::nodes::{
    Nodes, SLOT_RANGES, hash_slot_of_key, hash_slot_of_tag, key_in_each_range, range_of_slot,
};
use self::sentinel::Sentinels;
pub(super) use self::server::{Connection, ConnectionId, NodeId, ServerConnection};
use self::tls::Tls;
pub(super) use self::tls::TlsSettings;
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
    /// Sends one command for a key. Errors of the server, which the client crate returns as values, become errors.
    pub(super) async fn send(&self, key: &str, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Single(connection) => connection.send(command).await,
            // In a box: it may connect to another node, and the largest of all cases makes the size of every call.
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
    /// Known hosts, which every attempt to connect resolves.
    hosts: Hosts,
}

/// Settings of servers by which they are connected to. A node that is not named has those of the first.
enum Servers {
    Single(Box<ConnectionInfo>),
    /// The master that Sentinel names, looked up again at every attempt to connect.
    Sentinel(Sentinels),
    /// Some nodes of a cluster.
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
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| invalid("there is no `://` behind a scheme"))?;
        // The client crate reads options from it, such as one that skips the check of certificates.
        if url.contains('#') {
            return Err(invalid(
                "a fragment (`#..`) has no meaning here; write a `#` in a password as `%23`",
            ));
        }
        let is_tls = is_tls(url);
        let plain = scheme.replacen("rediss", "redis", 1).replacen("valkeys", "valkey", 1);
        // First, as the client crate does not say which feature is missing.
        let tls = if is_tls { Some(Tls::new(&settings.tls)?) } else { None };
        let (servers, hosts) = match plain.as_str() {
            "redis" | "valkey" | "unix" | "redis+unix" | "valkey+unix" => {
                let server = connection_info(url)?;
                let hosts = Hosts::of([&server]);
                (Servers::Single(Box::new(server)), hosts)
            }
            "redis-sentinel" => {
                let (nodes, service) = sentinels(rest, is_tls)?;
                let hosts = Hosts::of(&nodes);
                (Servers::Sentinel(Sentinels { nodes, service }), hosts)
            }
            "redis-cluster" => {
                let nodes = parse_nodes(rest.split('/').next().unwrap_or_default(), "", is_tls)?;
                let hosts = Hosts::of(&nodes);
                (Servers::Cluster(nodes), hosts)
            }
            _ => return Err(invalid("unknown scheme")),
        };
        let credentials = settings.credentials.map(Arc::new);
        Ok(Self { servers, connector: Connector { timeouts: settings.timeouts, tls, credentials }, hosts })
    }

    pub(super) const fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }

    /// Whether calls go over plain sockets.
    pub(super) fn is_plain(&self) -> bool {
        cfg!(unix) && self.connector.tls.is_none()
    }

    /// The masters of a cluster, without connections yet. `renew` is called when a connection to one is made or gone.
    pub(super) fn nodes(
        &self,
        renew: impl Fn(NodeId) + Send + Sync + 'static,
        runtime: &Handle,
    ) -> Option<Arc<Nodes>> {
        let Servers::Cluster(nodes) = &self.servers else { return None };
        let pattern = nodes.first()?.clone();
        Some(Arc::new(Nodes::new(pattern, self.connector.clone(), Box::new(renew), runtime.clone())))
    }

    /// Connects once.
    pub(super) async fn connect(&mut self) -> RedisResult<RedisConnection> {
        // At the same time, so that the reason is known when the attempt fails.
        let lookup = self.hosts.lookup();
        match self.servers.connect(&self.connector).await {
            // A server replied, so its host resolves.
            Err(error) if error.code().is_none() => Err(lookup.unresolved().await.unwrap_or(error)),
            result => result,
        }
    }
}

impl Servers {
    async fn connect(&mut self, connector: &Connector) -> RedisResult<RedisConnection> {
        Ok(match self {
            Self::Single(server) => RedisConnection::Single(ServerConnection::open(server, connector).await?),
            Self::Sentinel(sentinels) => {
                RedisConnection::Single(sentinels.connect_to_master(connector).await?)
            }
            Self::Cluster(nodes) => {
                RedisConnection::Cluster(ClusterConnection::open(nodes, connector).await?)
            }
        })
    }
}

/// Parses `[user:password@]host:port,host:port/service[/db]` into the settings of each sentinel, and the service.
fn sentinels(rest: &str, is_tls: bool) -> Result<(Vec<ConnectionInfo>, String), RedisConfigError> {
    let no_service = || invalid("there is no service name behind the hosts");
    let (hosts, path) = rest.split_once('/').ok_or_else(no_service)?;
    let (service, db) = path.split_once('/').unwrap_or((path, ""));
    if service.is_empty() {
        return Err(no_service());
    }
    Ok((parse_nodes(hosts, db, is_tls)?, service.to_owned()))
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
