//! Where the servers are: one of them, one that Sentinel names, or a cluster; from a URL to a connection.

mod cluster;
mod connection;
mod sentinel;
mod slots;
mod tcp;
mod tls;
mod url;

use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::sentinel::SentinelClient;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, RedisResult};

use self::cluster::ClusterWire;
pub(super) use self::connection::Wire;
use self::sentinel::{master, sentinel_client};
pub(super) use self::slots::{SLOT_RANGES, one_for_each_range, slot_range};
use self::tcp::{open, tcp_settings};
use self::tls::secure;
pub(super) use self::tls::{Trust, is_tls};
use self::url::{each_host, info, invalid, refused, resolve};
use super::timeouts::Timeouts;
use crate::error::ConfigError;

/// Where the servers are.
pub(super) enum Topology {
    Single(Box<Client>),
    /// Whoever Sentinel says is the master now; asked again at every attempt to connect. One client for each sentinel,
    /// because one for all would wait for the first that hangs, and so at every attempt.
    Sentinel(Vec<SentinelClient>),
    Cluster {
        client: Box<ClusterClient>,
        /// One of the nodes: how to connect to any.
        pattern: Box<ConnectionInfo>,
        trust: Trust,
    },
}

impl Topology {
    /// Reads a URL; its hosts must have addresses.
    pub(super) fn parse(url: &str, timeouts: Timeouts, trust: &Trust) -> Result<Self, ConfigError> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| invalid("there is no scheme"))?;
        // The client crate reads options from it, such as one that skips the check of certificates.
        if url.contains('#') {
            return Err(invalid(
                "a fragment (`#..`) has no meaning here; write a `#` in a password as `%23`",
            ));
        }
        let tls = is_tls(url);
        let plain = scheme.replacen("rediss", "redis", 1).replacen("valkeys", "valkey", 1);
        if tls {
            secure()?;
        }
        match plain.as_str() {
            "unix" | "redis+unix" | "valkey+unix" => Ok(Self::Single(Box::new(client(info(url)?, trust)?))),
            "redis" | "valkey" => {
                let info = info(url)?;
                resolve(info.addr())?;
                Ok(Self::Single(Box::new(client(info, trust)?)))
            }
            "redis-sentinel" => Self::sentinel(rest, tls, trust),
            "redis-cluster" => Self::cluster(rest, tls, timeouts, trust),
            _ => Err(invalid("unknown scheme")),
        }
    }

    fn sentinel(rest: &str, tls: bool, trust: &Trust) -> Result<Self, ConfigError> {
        let (hosts, path) =
            rest.split_once('/').ok_or_else(|| invalid("there is no service name behind the hosts"))?;
        let (service, db) = path.split_once('/').unwrap_or((path, ""));
        if service.is_empty() {
            return Err(invalid("there is no service name behind the hosts"));
        }
        let nodes = each_host(hosts, db, tls)?;
        let clients = nodes.iter().map(|node| sentinel_client(node, service, tls, trust));
        Ok(Self::Sentinel(clients.collect::<RedisResult<_>>().map_err(refused)?))
    }

    fn cluster(rest: &str, tls: bool, timeouts: Timeouts, trust: &Trust) -> Result<Self, ConfigError> {
        let hosts = rest.split('/').next().unwrap_or_default();
        let nodes = each_host(hosts, "", tls)?;
        let pattern = Box::new(nodes[0].clone());
        // The client's own defaults wait without end for a node that does not answer. It asks once: what it would repeat
        // might have been charged.
        let builder = ClusterClientBuilder::new(nodes)
            .connection_timeout(timeouts.connect)
            .response_timeout(timeouts.deadline)
            .overall_response_timeout(Some(timeouts.deadline))
            .retries(0)
            .tcp_settings(tcp_settings());
        #[cfg(feature = "redis-tls")]
        let builder = match trust.certificates() {
            Some(certificates) if tls => builder.certs(certificates),
            _ => builder,
        };
        let client = Box::new(builder.build().map_err(refused)?);
        Ok(Self::Cluster { client, pattern, trust: trust.clone() })
    }

    /// Whether the keys of a call have to be on one node.
    pub(super) const fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster { .. })
    }

    /// Makes a connection.
    pub(super) async fn connect(&mut self, timeouts: Timeouts) -> RedisResult<Wire> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeouts.connect))
            // The deadline covers the answer too; this only lets the connection forget a request that nobody awaits.
            .set_response_timeout(Some(timeouts.deadline.saturating_mul(2)));
        let client = match self {
            Self::Cluster { client, pattern, trust } => {
                let cluster = client.get_async_connection().await?;
                let (pattern, trust) = (pattern.clone(), trust.clone());
                let dial = move |host: &str, port| node(&pattern, host, port, &trust);
                return Ok(Wire::Cluster(ClusterWire::new(cluster, Box::new(dial), config)));
            }
            Self::Sentinel(sentinels) => &master(sentinels, timeouts.connect).await?,
            Self::Single(client) => &**client,
        };
        Ok(Wire::Single(client.get_multiplexed_async_connection_with_config(&config).await?))
    }
}

/// A client of another node of a cluster, like the one that is known.
fn node(pattern: &ConnectionInfo, host: &str, port: u16, trust: &Trust) -> RedisResult<Client> {
    let mut address = pattern.addr().clone();
    if let ConnectionAddr::Tcp(known, number) | ConnectionAddr::TcpTls { host: known, port: number, .. } =
        &mut address
    {
        // A node that does not know its own name leaves it out; then all are taken to share one.
        if !host.is_empty() {
            host.clone_into(known);
        }
        *number = port;
    }
    open(pattern.clone().set_addr(address), trust)
}

fn client(info: ConnectionInfo, trust: &Trust) -> Result<Client, ConfigError> {
    open(info, trust).map_err(refused)
}
