//! URLs of servers. A part that is not understood is an error that names it, and is never ignored.

use std::slice;

use percent_encoding::percent_decode_str;
use redis::{ConnectionInfo, IntoConnectionInfo, RedisError};

use super::connector::is_tls;
use crate::store::redis::error::RedisConfigError;

/// A parsed URL.
pub(super) struct Url {
    pub(super) servers: NamedServers,
}

/// The servers that a URL names.
pub(super) enum NamedServers {
    Single(ConnectionInfo),
    Sentinel {
        nodes: Vec<ConnectionInfo>,
        service: String,
    },
    /// At least one node.
    Cluster(Vec<ConnectionInfo>),
}

impl NamedServers {
    pub(super) fn nodes(&self) -> &[ConnectionInfo] {
        match self {
            Self::Single(server) => slice::from_ref(server),
            Self::Sentinel { nodes, .. } | Self::Cluster(nodes) => nodes,
        }
    }
}

/// Options of the URL of a Unix socket, which has no other place for these settings.
const SOCKET_OPTIONS: [&str; 3] = ["db", "user", "pass"];

impl Url {
    pub(super) fn parse(url: &str) -> Result<Self, RedisConfigError> {
        // A URL that comes from a file often ends with a line break.
        let url = url.trim();
        // The client crate silently ignores some of these.
        if url.contains(char::is_control) {
            return Err(invalid("there is a line break or another control character in it"));
        }
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| invalid("there is no `://` behind a scheme"))?;
        // The client crate takes options from it, such as one that skips the check of certificates.
        if url.contains('#') {
            return Err(invalid(
                "a fragment (`#..`) has no meaning here; write a `#` in a password as `%23`",
            ));
        }
        let scheme = scheme.to_ascii_lowercase();
        let (address, options) = rest.split_once('?').unwrap_or((rest, ""));
        let plain = scheme.replacen("rediss", "redis", 1).replacen("valkeys", "valkey", 1);
        let is_socket = matches!(plain.as_str(), "unix" | "redis+unix" | "valkey+unix");
        check_options(options, if is_socket { &SOCKET_OPTIONS } else { &[] })?;
        let is_tls = is_tls(&scheme);
        let servers = match plain.as_str() {
            _ if is_socket => NamedServers::Single(connection_info(&format!("{scheme}://{rest}"))?),
            "redis" | "valkey" => NamedServers::Single(connection_info(&format!("{scheme}://{address}"))?),
            "redis-sentinel" => sentinel(address, is_tls)?,
            "redis-cluster" => cluster(address, is_tls)?,
            _ => return Err(invalid("unknown scheme")),
        };
        Ok(Self { servers })
    }
}

/// Validates that all options are known. An error does not repeat text that may be a part of a password.
fn check_options(options: &str, known: &[&str]) -> Result<(), RedisConfigError> {
    for option in options.split('&').filter(|option| !option.is_empty()) {
        let name = option.split('=').next().unwrap_or_default();
        if known.contains(&name) {
            continue;
        }
        if known.is_empty() && options.contains('@') {
            return Err(invalid("write a `?` in a password as `%3F`"));
        }
        if name != "database" && known.contains(&"pass") && options.contains("pass=") {
            return Err(invalid(
                "an option behind the password has no meaning here; write a `&` in a password as `%26`",
            ));
        }
        let name = if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)) {
            name
        } else {
            ".."
        };
        let problem = match name {
            "db" | "database" => {
                format!("the option `{name}` has no meaning here; write the database behind the host")
            }
            _ => format!("the option `{name}` has no meaning here"),
        };
        return Err(invalid(&problem));
    }
    Ok(())
}

/// `[user:password@]host:port,host:port/service[/db]`.
fn sentinel(address: &str, is_tls: bool) -> Result<NamedServers, RedisConfigError> {
    let no_service = || invalid("there is no service name behind the hosts");
    let (hosts, path) = address.split_once('/').ok_or_else(no_service)?;
    let (service, db) = path.split_once('/').unwrap_or((path, ""));
    if service.is_empty() {
        return Err(no_service());
    }
    let service =
        percent_decode_str(service).decode_utf8().map_err(|_| invalid("the service name is not UTF-8"))?;
    Ok(NamedServers::Sentinel { nodes: nodes(hosts, db, is_tls)?, service: service.into_owned() })
}

/// `[user:password@]host:port,host:port[/db]`. Before Valkey 9, a cluster refuses every other database than
/// 0.
fn cluster(address: &str, is_tls: bool) -> Result<NamedServers, RedisConfigError> {
    let (hosts, db) = address.split_once('/').unwrap_or((address, ""));
    Ok(NamedServers::Cluster(nodes(hosts, db, is_tls)?))
}

/// The settings of each node of `[user:password@]host:port,host:port`.
fn nodes(hosts: &str, db: &str, is_tls: bool) -> Result<Vec<ConnectionInfo>, RedisConfigError> {
    let (credentials, hosts) = hosts.rsplit_once('@').map_or(("", hosts), |(user, hosts)| (user, hosts));
    let scheme = if is_tls { "rediss" } else { "redis" };
    let at = if credentials.is_empty() { "" } else { "@" };
    hosts
        .split(',')
        .map(|host| connection_info(&format!("{scheme}://{credentials}{at}{}/{db}", host.trim())))
        .collect()
}

pub(super) fn connection_info(url: &str) -> Result<ConnectionInfo, RedisConfigError> {
    // The client crate only reports that a URL is invalid; this reports why.
    url::Url::parse(url).map_err(|error| invalid(&error.to_string()))?;
    url.into_connection_info().map_err(invalid_settings)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Address, database, user and password of each node, and the service.
    fn parts(url: &str) -> (Vec<String>, String) {
        let (nodes, service) = match Url::parse(url).unwrap().servers {
            NamedServers::Single(info) => (vec![info], String::new()),
            NamedServers::Sentinel { nodes, service } => (nodes, service),
            NamedServers::Cluster(nodes) => (nodes, "cluster".to_owned()),
        };
        let node = |info: &ConnectionInfo| {
            let settings = info.redis_settings();
            let (user, password) = (settings.username().unwrap_or("-"), settings.password().unwrap_or("-"));
            format!("{} {} {user} {password}", info.addr(), settings.db())
        };
        (nodes.iter().map(node).collect(), service)
    }

    #[test]
    fn every_part_of_a_url_is_read() {
        for (url, nodes, service) in [
            ("redis://h", &["h:6379 0 - -"][..], ""),
            ("Redis://h:1/2/", &["h:1 2 - -"], ""),
            ("redis://u:p%3F%40@h:1/2\n", &["h:1 2 u p?@"], ""),
            ("valkey://:p w@h/?", &["h:6379 0 - p w"], ""),
            ("unix:///run/redis.sock?db=2&user=u&pass=p@?", &["/run/redis.sock 2 u p@?"], ""),
            ("redis-sentinel://a:1, b:2/main\n", &["a:1 0 - -", "b:2 0 - -"], "main"),
            ("REDIS-SENTINEL://u:p@a:1/my%6Daster/3", &["a:1 3 u p"], "mymaster"),
            ("redis-cluster://:p@a:1,\u{20}b:2/0\r\n", &["a:1 0 - p", "b:2 0 - p"], "cluster"),
            ("redis-cluster://a:1,b:2/3", &["a:1 3 - -", "b:2 3 - -"], "cluster"),
        ] {
            let found = parts(url);
            let is_equal = found.0.iter().zip(nodes).all(|(found, node)| found == node);
            assert!(is_equal && found.0.len() == nodes.len() && found.1 == service, "{url}: {found:?}");
        }
    }

    #[test]
    fn the_scheme_tells_whether_a_url_is_one_of_tls_in_any_case() {
        for (url, expected) in [
            ("rediss://h", true),
            (" REDISS://h", true),
            ("rediss-sentinel://h:1/main", true),
            ("Rediss-Cluster://h:1", true),
            ("valkeys://h", true),
            ("redis://h", false),
            ("valkey://h", false),
            ("redis-cluster://rediss:1", false),
            ("h", false),
            ("", false),
        ] {
            assert_eq!(is_tls(url), expected, "{url}");
        }
    }
}
