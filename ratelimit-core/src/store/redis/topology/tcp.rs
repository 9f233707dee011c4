//! TCP connections: their settings, and clients that make them.

use std::time::Duration;

#[cfg(feature = "redis-tls")]
use redis::ConnectionAddr;
use redis::io::tcp::{TcpSettings, socket2};
use redis::{Client, ConnectionInfo, RedisResult};

use super::tls::TlsRoots;

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
    let info = info.set_tcp_settings(tcp_settings());
    #[cfg(feature = "redis-tls")]
    if let (ConnectionAddr::TcpTls { .. }, Some(certificates)) = (info.addr(), tls_roots.certificates()) {
        return Client::build_with_tls(info, certificates);
    }
    #[cfg(not(feature = "redis-tls"))]
    let _ = tls_roots;
    Client::open(info)
}
