//! URLs, and the hosts in them.

use std::net::ToSocketAddrs;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError};

use crate::error::ConfigError;

pub(super) fn invalid(problem: &str) -> ConfigError {
    ConfigError::RedisUrl { problem: problem.to_owned() }
}

/// The client's texts do not repeat the URL.
#[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(super) fn refused(error: RedisError) -> ConfigError {
    ConfigError::RedisUrl { problem: error.to_string() }
}

pub(super) fn info(url: &str) -> Result<ConnectionInfo, ConfigError> {
    // The client only says that a URL did not parse; this says why.
    ::url::Url::parse(url).map_err(|error| invalid(&error.to_string()))?;
    url.into_connection_info().map_err(refused)
}

/// One connection description for each of `[user:password@]host:port,host:port`; at least one has an address.
pub(super) fn each_host(hosts: &str, db: &str, tls: bool) -> Result<Vec<ConnectionInfo>, ConfigError> {
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

pub(super) fn resolve(address: &ConnectionAddr) -> Result<(), ConfigError> {
    let (ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. }) = address else {
        return Ok(());
    };
    let unknown = |source| ConfigError::RedisHost { host: host.clone(), source };
    let mut addresses = (host.as_str(), *port).to_socket_addrs().map_err(unknown)?;
    addresses.next().map(drop).ok_or_else(|| unknown(std::io::ErrorKind::NotFound.into()))
}
