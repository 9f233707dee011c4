//! Sentinel: finding the master.

use std::time::Duration;

use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{Client, ConnectionInfo, ErrorKind, RedisError, RedisResult, TlsMode};
use tokio::time::timeout;

use super::tcp_settings;
use super::tls::TlsRoots;

/// The master, from the first sentinel that names one. That sentinel moves to the front for the next attempt.
pub(super) async fn master(sentinels: &mut [SentinelClient], limit: Duration) -> RedisResult<Client> {
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

/// A client that asks one sentinel for the master of a service.
pub(super) fn sentinel_client(
    sentinel: &ConnectionInfo,
    service: &str,
    tls: bool,
    tls_roots: &TlsRoots,
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
    if tls && let Some(certificates) = tls_roots.certificates() {
        builder = builder
            .set_client_to_redis_certificates(certificates.clone())
            .set_client_to_sentinel_certificates(certificates);
    }
    #[cfg(not(feature = "redis-tls"))]
    let _ = tls_roots;
    builder.build()
}
