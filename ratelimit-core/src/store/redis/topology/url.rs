//! URLs of servers: parsing, and resolving hosts.

use std::net::ToSocketAddrs;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError};

use crate::error::ConfigError;

/// The error of an invalid URL.
pub(super) fn invalid(problem: &str) -> ConfigError {
    ConfigError::RedisUrl { problem: problem.to_owned() }
}

/// Wraps an error of the client crate, whose text does not repeat the URL.
#[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(super) fn invalid_settings(error: RedisError) -> ConfigError {
    ConfigError::RedisUrl { problem: error.to_string() }
}

pub(super) fn connection_info(url: &str) -> Result<ConnectionInfo, ConfigError> {
    // The client crate only reports that a URL is invalid; this reports why.
    ::url::Url::parse(url).map_err(|error| invalid(&error.to_string()))?;
    url.into_connection_info().map_err(invalid_settings)
}

/// Parses `[user:password@]host:port,host:port` into the settings of each node. At least one host must resolve.
pub(super) fn parse_nodes(hosts: &str, db: &str, tls: bool) -> Result<Vec<ConnectionInfo>, ConfigError> {
    let (credentials, hosts) = hosts.rsplit_once('@').map_or(("", hosts), |(user, hosts)| (user, hosts));
    let scheme = if tls { "rediss" } else { "redis" };
    let at = if credentials.is_empty() { "" } else { "@" };
    let nodes: Vec<ConnectionInfo> = hosts
        .split(',')
        .map(|host| connection_info(&format!("{scheme}://{credentials}{at}{host}/{db}")))
        .collect::<Result<_, _>>()?;
    // One node is enough to find the others.
    let mut resolved = nodes.iter().map(|node| resolve(node.addr()));
    match resolved.next() {
        Some(Err(error)) if resolved.all(|other| other.is_err()) => Err(error),
        _ => Ok(nodes),
    }
}

/// Checks that the host has an address. Blocks the calling thread while DNS replies.
pub(super) fn resolve(address: &ConnectionAddr) -> Result<(), ConfigError> {
    let (ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. }) = address else {
        return Ok(());
    };
    let unknown = |source| ConfigError::RedisHost { host: host.clone(), source };
    let mut addresses = (host.as_str(), *port).to_socket_addrs().map_err(unknown)?;
    addresses.next().map(drop).ok_or_else(|| unknown(std::io::ErrorKind::NotFound.into()))
}
