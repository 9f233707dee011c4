//! URLs of servers: parsing.

use redis::{ConnectionInfo, IntoConnectionInfo, RedisError};

use crate::store::redis::config_error::RedisConfigError;

/// The error of an invalid URL.
pub(super) fn invalid(problem: &str) -> RedisConfigError {
    RedisConfigError::Url { problem: problem.to_owned() }
}

/// Wraps an error of the client crate, whose text does not repeat the URL.
#[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(super) fn invalid_settings(error: RedisError) -> RedisConfigError {
    RedisConfigError::Url { problem: error.to_string() }
}

pub(super) fn connection_info(url: &str) -> Result<ConnectionInfo, RedisConfigError> {
    // The client crate only reports that a URL is invalid; this reports why.
    ::url::Url::parse(url).map_err(|error| invalid(&error.to_string()))?;
    url.into_connection_info().map_err(invalid_settings)
}

/// Parses `[user:password@]host:port,host:port` into the settings of each node.
pub(super) fn parse_nodes(hosts: &str, db: &str, tls: bool) -> Result<Vec<ConnectionInfo>, RedisConfigError> {
    let (credentials, hosts) = hosts.rsplit_once('@').map_or(("", hosts), |(user, hosts)| (user, hosts));
    let scheme = if tls { "rediss" } else { "redis" };
    let at = if credentials.is_empty() { "" } else { "@" };
    hosts
        .split(',')
        .map(|host| connection_info(&format!("{scheme}://{credentials}{at}{host}/{db}")))
        .collect()
}
