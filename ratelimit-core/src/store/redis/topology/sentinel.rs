//! Sentinel: finding the master.

use std::time::Duration;

use redis::{ConnectionInfo, ErrorKind, RedisConnectionInfo, RedisError, RedisResult, Value};

use tokio::time::timeout;

use super::connector::{Connector, server_at};
use super::server::ServerConnection;
use crate::store::redis::error::SENTINEL_CREDENTIALS;

/// The sentinels of a service.
pub(super) struct Sentinels {
    /// One after the other is asked, the one that answered last first. Credentials in the URL are those of
    /// the servers.
    pub(super) nodes: Vec<ConnectionInfo>,
    pub(super) service: String,
}

impl Sentinels {
    /// A connection to the master. Sentinels are asked until one names a server that says itself that it is a
    /// master: it may have been demoted, or not been promoted yet. Whether the sentinel takes it for down
    /// does not matter: after a pause of its process a sentinel judges nothing for 30 s (TILT), and takes for
    /// down what it took for down before.
    pub(super) async fn connect_to_master(&mut self, connector: &Connector) -> RedisResult<ServerConnection> {
        let mut failure = RedisError::from((ErrorKind::EmptySentinelList, "there is no sentinel"));
        let mut tried: Vec<(String, u16)> = Vec::new();
        for _ in 0..self.nodes.len() {
            // Before it is asked: who waits for this may give up meanwhile, and the next attempt then begins
            // with the next one.
            self.nodes.rotate_left(1);
            let sentinel = &self.nodes[self.nodes.len() - 1];
            // For each by itself: one that hangs takes connections and replies nothing.
            let limit = connector.timeouts.connect;
            let naming = self.named_by(sentinel, connector);
            match in_time(limit, "a sentinel does not answer in time", naming).await {
                Ok(named) if tried.contains(&named) => {}
                Ok(named) => {
                    let master = server_at(&self.nodes[0], &named.0, named.1);
                    let connecting = connect_to_master(&master, connector);
                    match in_time(limit, "the master does not answer in time", connecting).await {
                        Ok(connection) => {
                            self.nodes.rotate_right(1);
                            return Ok(connection);
                        }
                        Err(error) => failure = error,
                    }
                    tried.push(named);
                }
                // What a server says tells more.
                Err(error) if failure.code().is_none() => failure = error,
                Err(_) => {}
            }
        }
        Err(failure)
    }

    /// Host and port of the master that a sentinel names. A sentinel with a password is given the credentials
    /// of the URL.
    async fn named_by(&self, sentinel: &ConnectionInfo, connector: &Connector) -> RedisResult<(String, u16)> {
        let connector = connector.without_credentials();
        let settings = sentinel.redis_settings().clone().set_db(0);
        let named = match self.named_to(sentinel, RedisConnectionInfo::default(), &connector).await {
            Err(error) if error.code() == Some("NOAUTH") && settings.password().is_some() => {
                self.named_to(sentinel, settings, &connector).await.map_err(|error| match error.kind() {
                    kind @ ErrorKind::AuthenticationFailed => RedisError::from((kind, SENTINEL_CREDENTIALS)),
                    _ => error,
                })
            }
            named => named,
        };
        named?.ok_or_else(|| {
            let problem = "the sentinel knows no service of this name";
            RedisError::from((ErrorKind::MasterNameNotFoundBySentinel, problem, self.service.clone()))
        })
    }

    async fn named_to(
        &self,
        sentinel: &ConnectionInfo,
        settings: RedisConnectionInfo,
        connector: &Connector,
    ) -> RedisResult<Option<(String, u16)>> {
        let sentinel = sentinel.clone().set_redis_settings(settings);
        let connection = ServerConnection::open(&sentinel, connector).await?;
        let mut ask = redis::cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.service);
        match connection.send(&ask).await {
            Ok(named) => Ok(redis::from_redis_value(named)?),
            Err(error) if error.to_string().contains("unknown command") => {
                Err(RedisError::from((ErrorKind::Client, "the address does not point to a sentinel")))
            }
            Err(error) => Err(error),
        }
    }
}

/// The output of a future, or an error with this text.
async fn in_time<T>(
    limit: Duration,
    problem: &'static str,
    future: impl Future<Output = RedisResult<T>>,
) -> RedisResult<T> {
    let late = |_| RedisError::from((ErrorKind::Io, problem));
    timeout(limit, future).await.map_err(late).flatten()
}

async fn connect_to_master(server: &ConnectionInfo, connector: &Connector) -> RedisResult<ServerConnection> {
    let connection = ServerConnection::open(server, connector).await?;
    match connection.send(&redis::cmd("ROLE")).await? {
        Value::Array(role) if role.first() == Some(&Value::BulkString(b"master".to_vec())) => Ok(connection),
        _ => Err(RedisError::from((ErrorKind::Client, "the server that the sentinel names is no master"))),
    }
}
