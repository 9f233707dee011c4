//! Where the servers are: one of them, one that Sentinel names, or a cluster; from a URL to a connection.

mod cluster;

use std::net::ToSocketAddrs;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::io::tcp::{TcpSettings, socket2};
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo,
    RedisError, RedisResult, TlsMode, Value,
};
use tokio::time::timeout;

use self::cluster::ClusterWire;
use super::timeouts::Timeouts;
use crate::error::ConfigError;

/// Parts into which the slots of a cluster are divided to tell a node that hangs from the others. A single server is
/// one part.
pub(super) const SLOT_RANGES: usize = 64;

/// Slots in a cluster.
const SLOTS: u16 = 16_384;

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

/// A connection that many calls share.
#[derive(Clone)]
pub(super) enum Wire {
    Single(MultiplexedConnection),
    Cluster(ClusterWire),
}

impl Wire {
    /// Sends one command; the server's errors, which the client hands on as values, become errors.
    pub(super) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Single(wire) => wire.req_packed_command(command).await.and_then(Value::extract_error),
            Self::Cluster(wire) => wire.send(command).await,
        }
    }
}

/// Who may vouch for a server, over TLS.
#[derive(Clone, Default)]
pub(super) struct Trust {
    /// Certificates in PEM, instead of those that the system trusts.
    #[cfg(feature = "redis-tls")]
    pub(super) root: Option<Vec<u8>>,
}

#[cfg(feature = "redis-tls")]
impl Trust {
    fn certificates(&self) -> Option<redis::TlsCertificates> {
        let root_cert = Some(self.root.clone()?);
        Some(redis::TlsCertificates { client_tls: None, root_cert })
    }
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

/// The master, from the first sentinel that knows it. The one that was asked last stays in front: it answers, or the next
/// attempt begins with the one after it.
async fn master(sentinels: &mut [SentinelClient], limit: Duration) -> RedisResult<Client> {
    let mut failure = RedisError::from((ErrorKind::EmptySentinelList, "there is no sentinel"));
    for _ in 0..sentinels.len() {
        match timeout(limit, sentinels[0].async_get_client()).await {
            Ok(Ok(master)) => return Ok(master),
            Ok(Err(error)) => failure = error,
            Err(_) => failure = RedisError::from((ErrorKind::Io, "a sentinel does not answer in time")),
        }
        sentinels.rotate_left(1);
    }
    Err(failure)
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

/// Asks one sentinel who is the master of a service.
fn sentinel_client(
    sentinel: &ConnectionInfo,
    service: &str,
    tls: bool,
    trust: &Trust,
) -> RedisResult<SentinelClient> {
    // Credentials in the URL are those of the servers; a sentinel usually has none.
    let settings = sentinel.redis_settings();
    let mut builder =
        SentinelClientBuilder::new([sentinel.addr().clone()], service, SentinelServerType::Master)?
            .set_client_to_redis_tcp_settings(tcp_settings())
            .set_client_to_sentinel_tcp_settings(tcp_settings())
            .set_client_to_redis_db(settings.db());
    if let Some(username) = settings.username() {
        builder = builder.set_client_to_redis_username(username);
    }
    if let Some(password) = settings.password() {
        builder = builder.set_client_to_redis_password(password);
    }
    if tls {
        builder = builder
            .set_client_to_redis_tls_mode(TlsMode::Secure)
            .set_client_to_sentinel_tls_mode(TlsMode::Secure);
    }
    #[cfg(feature = "redis-tls")]
    if tls && let Some(certificates) = trust.certificates() {
        builder = builder
            .set_client_to_redis_certificates(certificates.clone())
            .set_client_to_sentinel_certificates(certificates);
    }
    #[cfg(not(feature = "redis-tls"))]
    let _ = trust;
    builder.build()
}

/// Whether this URL asks for TLS.
pub(super) fn is_tls(url: &str) -> bool {
    url.starts_with("rediss") || url.starts_with("valkeys")
}

/// The hash tag of a key, which decides where in a cluster it is.
fn hash_tag(key: &str) -> &str {
    key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or(key, |(tag, _)| tag)
}

/// The part of the cluster in which a key is.
pub(super) fn slot_range(key: &str) -> usize {
    let slot = crc16::State::<crc16::XMODEM>::calculate(hash_tag(key).as_bytes()) % SLOTS;
    usize::from(slot) * SLOT_RANGES / usize::from(SLOTS)
}

/// A small packet is sent at once, and a peer that is gone is noticed even when nothing is sent.
fn tcp_settings() -> TcpSettings {
    let keepalive =
        socket2::TcpKeepalive::new().with_time(Duration::from_secs(10)).with_interval(Duration::from_secs(3));
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    let settings = settings.set_user_timeout(Duration::from_secs(2));
    settings
}

fn invalid(problem: &str) -> ConfigError {
    ConfigError::RedisUrl { problem: problem.to_owned() }
}

/// The client's texts do not repeat the URL.
#[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn refused(error: RedisError) -> ConfigError {
    ConfigError::RedisUrl { problem: error.to_string() }
}

fn info(url: &str) -> Result<ConnectionInfo, ConfigError> {
    // The client only says that a URL did not parse; this says why.
    url::Url::parse(url).map_err(|error| invalid(&error.to_string()))?;
    url.into_connection_info().map_err(refused)
}

fn client(info: ConnectionInfo, trust: &Trust) -> Result<Client, ConfigError> {
    open(info, trust).map_err(refused)
}

fn open(info: ConnectionInfo, trust: &Trust) -> RedisResult<Client> {
    let info = info.set_tcp_settings(tcp_settings());
    #[cfg(feature = "redis-tls")]
    if let (ConnectionAddr::TcpTls { .. }, Some(certificates)) = (info.addr(), trust.certificates()) {
        return Client::build_with_tls(info, certificates);
    }
    #[cfg(not(feature = "redis-tls"))]
    let _ = trust;
    Client::open(info)
}

/// One connection description for each of `[user:password@]host:port,host:port`; at least one has an address.
fn each_host(hosts: &str, db: &str, tls: bool) -> Result<Vec<ConnectionInfo>, ConfigError> {
    let (credentials, hosts) = hosts.rsplit_once('@').map_or(("", hosts), |(user, hosts)| (user, hosts));
    let scheme = if tls { "rediss" } else { "redis" };
    let at = if credentials.is_empty() { "" } else { "@" };
    let nodes: Vec<ConnectionInfo> = hosts
        .split(',')
        .map(|host| info(&format!("{scheme}://{credentials}{at}{host}/{db}")))
        .collect::<Result<_, _>>()?;
    // One that is known is enough to find the others.
    let mut unknown = nodes.iter().map(|node| resolve(node.addr()));
    match unknown.next() {
        Some(Err(error)) if unknown.all(|other| other.is_err()) => Err(error),
        _ => Ok(nodes),
    }
}

fn resolve(address: &ConnectionAddr) -> Result<(), ConfigError> {
    let (ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. }) = address else {
        return Ok(());
    };
    let unknown = |source| ConfigError::RedisHost { host: host.clone(), source };
    let mut addresses = (host.as_str(), *port).to_socket_addrs().map_err(unknown)?;
    addresses.next().map(drop).ok_or_else(|| unknown(std::io::ErrorKind::NotFound.into()))
}

/// Makes sure that the client has cryptography to speak TLS with.
#[cfg(feature = "redis-tls")]
#[allow(clippy::unnecessary_wraps, reason = "without TLS it is an error")]
fn secure() -> Result<(), ConfigError> {
    // An application that has chosen one keeps it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(())
}

#[cfg(not(feature = "redis-tls"))]
fn secure() -> Result<(), ConfigError> {
    Err(invalid("TLS is not built in; turn on the feature `redis-tls`"))
}
