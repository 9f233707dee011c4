//! Sentinel: finding the master.

use std::time::Duration;

use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{Client, ConnectionInfo, ErrorKind, RedisConnectionInfo, RedisError, RedisResult, TlsMode};
use tokio::time::timeout;

use super::client::{TlsRoots, node_client, open_client, tcp_settings};
use crate::store::redis::error::SENTINEL_CREDENTIALS;

/// A sentinel, and how to reach the servers that it names.
pub(super) struct Watcher {
    /// Tried first: a sentinel without a password takes none.
    anonymous: Lookup,
    /// With the user and the password of the servers, if the URL has them.
    authenticated: Option<Lookup>,
    service: String,
    /// Settings of the servers.
    pattern: ConnectionInfo,
    tls_roots: TlsRoots,
}

/// A way to ask a sentinel.
struct Lookup {
    client: SentinelClient,
    /// The sentinel itself.
    sentinel: Client,
}

impl Lookup {
    /// Whether the sentinel, and not the server that it names, rejects the user or the password.
    async fn is_rejected(&self) -> bool {
        let connected = self.sentinel.get_multiplexed_async_connection().await;
        connected.is_err_and(|error| error.kind() == ErrorKind::AuthenticationFailed)
    }
}

fn asks_for_password(error: &RedisError) -> bool {
    error.code() == Some("NOAUTH")
}

impl Watcher {
    pub(super) fn new(
        node: &ConnectionInfo,
        service: &str,
        tls: bool,
        tls_roots: &TlsRoots,
    ) -> RedisResult<Self> {
        let lookup = |settings: RedisConnectionInfo| {
            let client = sentinel_client(node, &settings, service, tls, tls_roots)?;
            let sentinel = open_client(node.clone().set_redis_settings(settings), tls_roots)?;
            Ok::<_, RedisError>(Lookup { client, sentinel })
        };
        let settings = node.redis_settings().clone().set_db(0);
        Ok(Self {
            anonymous: lookup(RedisConnectionInfo::default())?,
            authenticated: settings.password().is_some().then(|| lookup(settings)).transpose()?,
            service: service.to_owned(),
            pattern: node.clone(),
            tls_roots: tls_roots.clone(),
        })
    }

    /// The master that the sentinel names, if that server takes itself for one.
    async fn master(&mut self) -> RedisResult<Client> {
        let found = match (self.anonymous.client.async_get_client().await, &mut self.authenticated) {
            (Err(error), Some(lookup)) if asks_for_password(&error) => {
                match lookup.client.async_get_client().await {
                    Err(error)
                        if error.kind() == ErrorKind::AuthenticationFailed && lookup.is_rejected().await =>
                    {
                        Err(RedisError::from((ErrorKind::AuthenticationFailed, SENTINEL_CREDENTIALS)))
                    }
                    found => found,
                }
            }
            (found, _) => found,
        };
        let found =
            found.and_then(|master| open_client(master.get_connection_info().clone(), &self.tls_roots));
        found.map_err(|error| match error.kind() {
            kind @ ErrorKind::MasterNameNotFoundBySentinel => {
                let problem = "the sentinel knows no master that works, of the service";
                RedisError::from((kind, problem, self.service.clone()))
            }
            _ => error,
        })
    }

    /// The master that the sentinel names in its TILT mode; `None` in any other. In that mode, which follows a pause of its process and
    /// lasts 30 s, the sentinel takes for down what it took for down before, and the client crate skips such a master.
    async fn named_in_tilt(&self) -> RedisResult<Option<Client>> {
        match (self.named_in_tilt_by(&self.anonymous).await, &self.authenticated) {
            (Err(error), Some(lookup)) if asks_for_password(&error) => self.named_in_tilt_by(lookup).await,
            (named, _) => named,
        }
    }

    async fn named_in_tilt_by(&self, lookup: &Lookup) -> RedisResult<Option<Client>> {
        let mut connection = lookup.sentinel.get_multiplexed_async_connection().await?;
        let state: String = redis::cmd("INFO").arg("sentinel").query_async(&mut connection).await?;
        if !state.contains("sentinel_tilt:1") {
            return Ok(None);
        }
        let mut ask = redis::cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.service);
        let address: Option<(String, u16)> = ask.query_async(&mut connection).await?;
        let client = address.map(|(host, port)| node_client(&self.pattern, &host, port, &self.tls_roots));
        client.transpose()
    }
}

/// The master, from the first sentinel that names one. That sentinel moves to the front for the next attempt.
pub(super) async fn master(sentinels: &mut [Watcher], limit: Duration) -> RedisResult<Client> {
    let mut failure = RedisError::from((ErrorKind::EmptySentinelList, "there is no sentinel"));
    let mut named_in_tilt = None;
    for _ in 0..sentinels.len() {
        match timeout(limit, sentinels[0].master()).await {
            Ok(Ok(master)) => return Ok(master),
            Ok(Err(error)) => {
                if named_in_tilt.is_none() && error.kind() == ErrorKind::MasterNameNotFoundBySentinel {
                    let named = timeout(limit, sentinels[0].named_in_tilt()).await;
                    named_in_tilt = named.ok().and_then(RedisResult::ok).flatten();
                }
                failure = error;
            }
            Err(_) => failure = RedisError::from((ErrorKind::Io, "a sentinel does not answer in time")),
        }
        sentinels.rotate_left(1);
    }
    named_in_tilt.ok_or(failure)
}

/// A client that asks one sentinel, by these settings, for the master of a service.
fn sentinel_client(
    node: &ConnectionInfo,
    sentinel: &RedisConnectionInfo,
    service: &str,
    tls: bool,
    tls_roots: &TlsRoots,
) -> RedisResult<SentinelClient> {
    let settings = node.redis_settings();
    let mut builder = SentinelClientBuilder::new([node.addr().clone()], service, SentinelServerType::Master)?
        .set_client_to_redis_tcp_settings(tcp_settings())
        .set_client_to_sentinel_tcp_settings(tcp_settings())
        .set_client_to_redis_db(settings.db());
    if let Some(username) = settings.username() {
        builder = builder.set_client_to_redis_username(username);
    }
    if let Some(password) = settings.password() {
        builder = builder.set_client_to_redis_password(password);
    }
    if let Some(username) = sentinel.username() {
        builder = builder.set_client_to_sentinel_username(username);
    }
    if let Some(password) = sentinel.password() {
        builder = builder.set_client_to_sentinel_password(password);
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
