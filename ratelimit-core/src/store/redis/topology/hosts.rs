//! Look-ups of host names, and the error if no host of the URL has an address.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{ConnectionAddr, ConnectionInfo, RedisError, RedisResult};
use tokio::time::timeout;

use crate::store::redis::blocking::{BlockingCalls, Call};
use crate::store::redis::timeouts::Timeouts;

type Addresses = Vec<SocketAddr>;

/// A host name and a port.
type Name = (String, u16);

type LookUp = dyn Fn(&Name) -> io::Result<Addresses> + Send + Sync;

/// Looks up host names, each on a thread of its own for all attempts to connect.
pub(super) struct Hosts {
    /// Host names of the URL; empty if one of its hosts is an address or a path, which needs no look-up.
    named: Vec<Name>,
    calls: BlockingCalls<Name, Addresses>,
    look_up: Arc<LookUp>,
}

impl Hosts {
    /// `nodes` are the nodes of the URL.
    pub(super) fn of<'a>(nodes: impl IntoIterator<Item = &'a ConnectionInfo>, timeouts: &Timeouts) -> Self {
        let name = |node: &ConnectionInfo| match node.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                host.parse::<IpAddr>().is_err().then(|| (host.clone(), *port))
            }
            _ => None,
        };
        // One node is enough to find the others, so it matters only if no host resolves.
        let named = nodes.into_iter().map(name).collect::<Option<_>>().unwrap_or_default();
        let look_up = |name: &Name| name.to_socket_addrs().map(Iterator::collect);
        Self { named, calls: BlockingCalls::new(timeouts), look_up: Arc::new(look_up) }
    }

    /// The addresses of a host, for one attempt to connect.
    pub(super) async fn addresses(&self, host: &str, port: u16) -> RedisResult<Addresses> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let name = (host.to_owned(), port);
        self.calls.result(&name, &call_of(&name), self.call(&name)).await
    }

    /// The error if no host of the URL has an address in time: of the first host, or of the first that is
    /// late. `None` if a host has an address or needs no look-up. Does not take the results of look-ups, so
    /// an attempt to connect does not look up again.
    pub(super) async fn unresolved(&self) -> Option<RedisError> {
        let started: Vec<Call<Addresses>> =
            self.named.iter().map(|name| self.calls.start(name, self.call(name))).collect();
        let mut calls: FuturesUnordered<_> = (started.iter().cloned().enumerate())
            .map(|(index, call)| async move { (index, call.await) })
            .collect();
        let resolving = async {
            let mut first: Option<(usize, RedisError)> = None;
            while let Some((index, result)) = calls.next().await {
                let error = result.ok()?.1.err()?;
                if first.as_ref().is_none_or(|(earlier, _)| index < *earlier) {
                    first = Some((index, error));
                }
            }
            first.map(|(_, error)| error)
        };
        if let Ok(unresolved) = timeout(self.calls.timeout(), resolving).await {
            return unresolved;
        }
        let late = started.iter().position(|call| call.peek().is_none())?;
        Some(self.calls.slow(&call_of(&self.named[late])))
    }

    fn call(&self, name: &Name) -> impl FnOnce() -> RedisResult<Addresses> + Send + 'static {
        let (look_up, name) = (Arc::clone(&self.look_up), name.clone());
        move || {
            let found = look_up(&name).and_then(|addresses| {
                if addresses.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(addresses) }
            });
            found.map_err(|source| {
                let text = format!("the Redis host `{}` does not resolve: {source}", name.0);
                io::Error::new(source.kind(), text).into()
            })
        }
    }
}

/// The name of a look-up in errors.
fn call_of((host, _): &Name) -> String {
    format!("the look-up of the Redis host `{host}`")
}

#[cfg(test)]
pub(in crate::store::redis::topology) mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::store::redis::timeouts::tests::TIMEOUTS;
    use crate::store::redis::topology::url::connection_info;

    /// Hosts of this URL, and how often they were looked up: by a function, with this time to wait for it.
    pub(in crate::store::redis::topology) fn hosts_by(
        url: &str,
        connect: Duration,
        look_up: impl Fn() -> Addresses + Send + Sync + 'static,
    ) -> (Hosts, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let look_up = move |_: &Name| {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(look_up())
        };
        let hosts = Hosts::of(
            [&connection_info(url).unwrap()],
            &Timeouts { connect, longest_pause: Duration::from_secs(30), ..TIMEOUTS },
        );
        (Hosts { look_up: Arc::new(look_up), ..hosts }, count)
    }

    fn unresolved(urls: &[&str]) -> Option<String> {
        let nodes: Vec<_> = urls.iter().map(|url| connection_info(url).unwrap()).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let timeouts = Timeouts { connect: Duration::from_secs(30), ..TIMEOUTS };
        runtime.block_on(Hosts::of(&nodes, &timeouts).unresolved()).map(|error| error.to_string())
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

    #[tokio::test]
    async fn a_look_up_that_still_runs_is_named_and_not_one_that_failed() {
        let (_hang, hangs) = channel::<()>();
        let hangs = Mutex::new(hangs);
        let look_up = move |name: &Name| {
            if name.0 == "slow.test" {
                let _ = hangs.lock().unwrap().recv();
            }
            Ok(Vec::new())
        };
        let nodes = ["redis://gone.test", "redis://slow.test"].map(|url| connection_info(url).unwrap());
        let timeouts = Timeouts { connect: Duration::from_millis(200), ..TIMEOUTS };
        let hosts = Hosts { look_up: Arc::new(look_up), ..Hosts::of(&nodes, &timeouts) };
        let late = hosts.unresolved().await.unwrap().to_string();
        assert!(late.starts_with("the look-up of the Redis host `slow.test` takes longer"), "{late}");
    }

    #[tokio::test]
    async fn a_host_without_addresses_does_not_resolve() {
        let (hosts, _) = hosts_by("redis://empty.test:1", Duration::from_secs(30), Vec::new);
        let error = hosts.addresses("empty.test", 1).await.unwrap_err().to_string();
        assert!(error.starts_with("the Redis host `empty.test` does not resolve: "), "{error}");
    }
}
