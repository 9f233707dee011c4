//! How to connect to any server: settings of a connection, TLS, and the source of user and password.

use std::sync::Arc;
use std::time::Duration;

use redis::io::tcp::{TcpSettings, socket2};
use redis::{AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, RedisConnectionInfo, RedisResult};

use super::hosts::Hosts;
use super::tls::Tls;
use crate::store::redis::credentials::CredentialsSource;
use crate::store::redis::timeouts::Timeouts;

/// What all connections of a store have in common.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) timeouts: Timeouts,
    pub(super) hosts: Arc<Hosts>,
    /// For addresses with TLS.
    pub(super) tls: Option<Tls>,
    /// Source of user and password of the servers, instead of the URL.
    pub(super) credentials: Option<Arc<CredentialsSource>>,
}

impl Connector {
    /// The same for sentinels, which have users of their own.
    pub(super) fn without_credentials(&self) -> Self {
        Self { credentials: None, ..self.clone() }
    }

    /// Settings of a connection that is made now.
    pub(super) async fn settings(&self, server: &ConnectionInfo) -> RedisResult<RedisConnectionInfo> {
        // Proxies and restricted users reject `CLIENT SETINFO`, which sends the name of the client crate.
        let settings = server.redis_settings().clone().set_skip_set_lib_name();
        match &self.credentials {
            Some(source) => Ok(source.credentials().await?.apply_to(settings)),
            None => Ok(settings),
        }
    }
}

/// Calls and commands that a connection takes before its task writes them: far more than are queued before
/// that task runs. A call that waits for room may be overtaken.
const MOST_UNWRITTEN: usize = 1024;

/// Settings of the client crate's side of a connection.
pub(super) fn connection_config() -> AsyncConnectionConfig {
    // Every call, and every attempt to connect, has a deadline of its own, so the client crate needs no
    // timer.
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    config.set_pipeline_buffer_size(MOST_UNWRITTEN)
}

/// Another server, with the settings of a known server.
pub(super) fn server_at(pattern: &ConnectionInfo, host: &str, port: u16) -> ConnectionInfo {
    let mut address = pattern.addr().clone();
    if let ConnectionAddr::Tcp(known, number) | ConnectionAddr::TcpTls { host: known, port: number, .. } =
        &mut address
    {
        host.clone_into(known);
        *number = port;
    }
    pattern.clone().set_addr(address)
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

/// Whether the URL's scheme stands for TLS.
pub(in crate::store::redis) fn is_tls(url: &str) -> bool {
    let scheme = url.trim_start().get(..7).unwrap_or_default().to_ascii_lowercase();
    scheme.starts_with("rediss") || scheme == "valkeys"
}
