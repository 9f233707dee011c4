//! Host names of servers, and why they do not resolve.

use std::io;
use std::net::IpAddr;

use redis::{ConnectionAddr, ConnectionInfo, RedisError};
use tokio::net::lookup_host;
use tokio::task::JoinSet;

/// Host names and ports of the known servers; empty if one of them is an address or a path, which needs no
/// look-up.
#[derive(Debug)]
pub(super) struct Hosts(Vec<(String, u16)>);

impl Hosts {
    pub(super) fn of<'a>(nodes: impl IntoIterator<Item = &'a ConnectionInfo>) -> Self {
        let name = |node: &ConnectionInfo| match node.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                host.parse::<IpAddr>().is_err().then(|| (host.clone(), *port))
            }
            _ => None,
        };
        // One node is enough to find the others, so it matters only if no host resolves.
        Self(nodes.into_iter().map(name).collect::<Option<_>>().unwrap_or_default())
    }

    /// Starts to look up all hosts in the background. Dropping the result gives up.
    pub(super) fn lookup(&self) -> HostLookup {
        let mut lookups = JoinSet::new();
        for (index, (host, port)) in self.0.iter().cloned().enumerate() {
            lookups.spawn(async move {
                let found = lookup_host((host.as_str(), port)).await;
                let addresses = found.and_then(|mut addresses| {
                    addresses.next().map(drop).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
                });
                (index, host, addresses)
            });
        }
        HostLookup(lookups)
    }
}

/// Look-ups of all known hosts: index, host name and result.
pub(super) struct HostLookup(JoinSet<(usize, String, io::Result<()>)>);

impl HostLookup {
    /// The error of the first host, if no host has an address. `None` if one has, or if none needs a look-up.
    pub(super) async fn unresolved(mut self) -> Option<RedisError> {
        let mut first: Option<(usize, RedisError)> = None;
        while let Some(looked_up) = self.0.join_next().await {
            let (index, host, result) = looked_up.ok()?;
            let source = result.err()?;
            let text = format!("the Redis host `{host}` does not resolve: {source}");
            if first.as_ref().is_none_or(|(earlier, _)| index < *earlier) {
                first = Some((index, io::Error::new(source.kind(), text).into()));
            }
        }
        first.map(|(_, error)| error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::topology::url::connection_info;

    fn unresolved(urls: &[&str]) -> Option<String> {
        let nodes: Vec<_> = urls.iter().map(|url| connection_info(url).unwrap()).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let error = runtime.block_on(async { Hosts::of(&nodes).lookup().unresolved().await });
        error.map(|error| error.to_string())
    }

    #[test]
    fn hosts_are_unresolved_if_none_has_an_address() {
        let first = unresolved(&["redis://one.invalid:1", "redis://two.invalid:2"]).unwrap();
        assert!(first.starts_with("the Redis host `one.invalid` does not resolve: "), "{first}");
        assert_eq!(unresolved(&["redis://one.invalid:1", "redis://127.0.0.1:2"]), None);
        assert_eq!(unresolved(&["redis://one.invalid:1", "redis://localhost:2"]), None);
        assert_eq!(unresolved(&["redis://[::1]:2"]), None);
        assert_eq!(unresolved(&["unix:///tmp/redis.sock"]), None);
    }
}
