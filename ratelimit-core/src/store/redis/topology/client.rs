//! Clients of the client crate, with the settings of the store, and what they trust over TLS.

use std::time::Duration;

use redis::io::tcp::{TcpSettings, socket2};
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, RedisResult};

use crate::store::redis::error::RedisConfigError;
use crate::store::redis::timeouts::Timeouts;

/// Settings of a connection.
pub(super) fn connection_config(timeouts: Timeouts) -> AsyncConnectionConfig {
    // Every call has a deadline of its own, so the client crate needs no timer for it.
    AsyncConnectionConfig::new().set_connection_timeout(Some(timeouts.connect)).set_response_timeout(None)
}

/// A client of another node, with the settings of a known one.
pub(super) fn node_client(
    pattern: &ConnectionInfo,
    host: &str,
    port: u16,
    tls_roots: &TlsRoots,
) -> RedisResult<Client> {
    let mut address = pattern.addr().clone();
    if let ConnectionAddr::Tcp(known, number) | ConnectionAddr::TcpTls { host: known, port: number, .. } =
        &mut address
    {
        // A node that does not know its own host name leaves it out; then the known one is used.
        if !host.is_empty() {
            host.clone_into(known);
        }
        *number = port;
    }
    open_client(pattern.clone().set_addr(address), tls_roots)
}

/// Settings that send small packets at once, and notice a lost peer while the connection is idle.
pub(super) fn tcp_settings() -> TcpSettings {
    let keepalive =
        socket2::TcpKeepalive::new().with_time(Duration::from_secs(10)).with_interval(Duration::from_secs(3));
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    let settings = settings.set_user_timeout(Duration::from_secs(2));
    settings
}

/// A client with these settings; it connects later.
pub(super) fn open_client(info: ConnectionInfo, tls_roots: &TlsRoots) -> RedisResult<Client> {
    // Proxies and restricted users take no `CLIENT SETINFO`, which tells the name of the client crate.
    let settings = info.redis_settings().clone().set_skip_set_lib_name();
    let info = info.set_tcp_settings(tcp_settings()).set_redis_settings(settings);
    #[cfg(feature = "redis-tls")]
    if let (ConnectionAddr::TcpTls { .. }, Some(certificates)) = (info.addr(), tls_roots.certificates()) {
        return Client::build_with_tls(info, certificates);
    }
    #[cfg(not(feature = "redis-tls"))]
    let _ = tls_roots;
    Client::open(info)
}

/// Certificates that are trusted to sign those of servers.
#[derive(Clone, Default)]
pub(in crate::store::redis) struct TlsRoots {
    /// In PEM, instead of those that the system trusts.
    #[cfg(feature = "redis-tls")]
    pub(in crate::store::redis) root: Option<Vec<u8>>,
}

#[cfg(feature = "redis-tls")]
impl TlsRoots {
    pub(super) fn certificates(&self) -> Option<redis::TlsCertificates> {
        let root_cert = Some(self.root.clone()?);
        Some(redis::TlsCertificates { client_tls: None, root_cert })
    }
}

/// Whether the URL's scheme is one with TLS.
pub(in crate::store::redis) fn is_tls(url: &str) -> bool {
    let scheme = url.trim_start().get(..7).unwrap_or_default().to_ascii_lowercase();
    scheme.starts_with("rediss") || scheme == "valkeys"
}

/// Makes sure that the client has a crypto provider for TLS.
#[cfg(feature = "redis-tls")]
#[allow(clippy::unnecessary_wraps, reason = "without TLS it is an error")]
pub(super) fn install_crypto_provider() -> Result<(), RedisConfigError> {
    // Keeps the provider that the application has installed, if any.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(())
}

#[cfg(not(feature = "redis-tls"))]
pub(super) fn install_crypto_provider() -> Result<(), RedisConfigError> {
    let problem = "TLS is not built in; turn on the feature `redis-tls`".to_owned();
    Err(RedisConfigError::Url { problem })
}
