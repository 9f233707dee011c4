//! Sentinel: finding the master, and other sentinels.

use std::collections::HashMap;
use std::time::Duration;

use redis::{ConnectionInfo, ErrorKind, FromRedisValue, RedisConnectionInfo, RedisError, RedisResult, Value};

use tokio::time::{sleep, timeout};

use super::connector::{Connector, server_at};
use super::server::ServerConnection;
use crate::store::redis::error::SENTINEL_CREDENTIALS;

/// Time after which a sentinel is asked for the others again.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Most sentinels that are remembered.
const MOST_SENTINELS: usize = 16;

/// The sentinels of a service.
pub(super) struct Sentinels {
    /// Those of the URL. Its credentials are those of the servers.
    named: Vec<ConnectionInfo>,
    /// One after the other is asked, the one that answered last first.
    nodes: Vec<ConnectionInfo>,
    service: String,
}

/// What a sentinel tells.
struct Told {
    /// Host and port of the master.
    master: Option<(String, u16)>,
    /// Those of other sentinels.
    others: Vec<(String, u16)>,
}

impl Sentinels {
    pub(super) fn new(named: Vec<ConnectionInfo>, service: String) -> Self {
        Self { nodes: named.clone(), named, service }
    }

    /// Asks for other sentinels again and again: by the time when the master fails, all of those that were
    /// known before may have been replaced.
    pub(super) async fn look_around(&mut self, connector: &Connector) {
        loop {
            sleep(LOOK_INTERVAL).await;
            let Some(sentinel) = self.nodes.first().cloned() else { continue };
            match timeout(connector.timeouts.connect, self.told_by(&sentinel, connector)).await {
                Ok(Ok(told)) => self.note(&sentinel, told.others),
                _ => self.nodes.rotate_left(1),
            }
        }
    }

    /// Notes the sentinel that answered, and the others, of which it knows more than the URL. Earlier ones
    /// stay: for a while after a reset it knows no other.
    fn note(&mut self, answered: &ConnectionInfo, others: Vec<(String, u16)>) {
        let others = others.into_iter().map(|(host, port)| server_at(answered, &host, port));
        let mut nodes = vec![answered.clone()];
        for node in others.chain(self.named.iter().cloned()).chain(self.nodes.drain(..)) {
            if nodes.len() < MOST_SENTINELS && !nodes.iter().any(|known| known.addr() == node.addr()) {
                nodes.push(node);
            }
        }
        self.nodes = nodes;
    }

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
            let sentinel = self.nodes[self.nodes.len() - 1].clone();
            // For each by itself: one that hangs takes connections and replies nothing.
            let limit = connector.timeouts.connect;
            let naming = self.named_by(&sentinel, connector);
            match in_time(limit, "a sentinel does not answer in time", naming).await {
                Ok((named, _)) if tried.contains(&named) => {}
                Ok((named, others)) => {
                    let master = server_at(&sentinel, &named.0, named.1);
                    let connecting = connect_to_master(&master, connector);
                    match in_time(limit, "the master does not answer in time", connecting).await {
                        Ok(connection) => {
                            self.note(&sentinel, others);
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

    /// The master that a sentinel names, and other sentinels.
    async fn named_by(
        &self,
        sentinel: &ConnectionInfo,
        connector: &Connector,
    ) -> RedisResult<((String, u16), Vec<(String, u16)>)> {
        let told = self.told_by(sentinel, connector).await?;
        let master = told.master.ok_or_else(|| {
            let problem = "the sentinel knows no service of this name";
            RedisError::from((ErrorKind::MasterNameNotFoundBySentinel, problem, self.service.clone()))
        })?;
        Ok((master, told.others))
    }

    /// What a sentinel tells. One with a password is given the credentials of the URL.
    async fn told_by(&self, sentinel: &ConnectionInfo, connector: &Connector) -> RedisResult<Told> {
        let connector = connector.without_credentials();
        let settings = sentinel.redis_settings().clone().set_db(0);
        match self.told_to(sentinel, RedisConnectionInfo::default(), &connector).await {
            Err(error) if error.code() == Some("NOAUTH") && settings.password().is_some() => {
                self.told_to(sentinel, settings, &connector).await.map_err(|error| match error.kind() {
                    kind @ ErrorKind::AuthenticationFailed => RedisError::from((kind, SENTINEL_CREDENTIALS)),
                    _ => error,
                })
            }
            told => told,
        }
    }

    async fn told_to(
        &self,
        sentinel: &ConnectionInfo,
        settings: RedisConnectionInfo,
        connector: &Connector,
    ) -> RedisResult<Told> {
        let sentinel = sentinel.clone().set_redis_settings(settings);
        let connection = ServerConnection::open(&sentinel, connector).await?;
        let mut ask = redis::cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.service);
        let master = match connection.send(&ask).await {
            Ok(named) => redis::from_redis_value(named)?,
            Err(error) if error.to_string().contains("unknown command") => {
                return Err(RedisError::from((
                    ErrorKind::Client,
                    "the address does not point to a sentinel",
                )));
            }
            Err(error) => return Err(error),
        };
        // Without the permission for it, those of the URL have to do.
        let others = connection.send(redis::cmd("SENTINEL").arg("SENTINELS").arg(&self.service)).await;
        let others = others.and_then(|reply| Ok(Vec::<HashMap<String, String>>::from_redis_value(reply)?));
        let address =
            |of: HashMap<String, String>| Some((of.get("ip")?.clone(), of.get("port")?.parse().ok()?));
        let others = others.unwrap_or_default().into_iter().filter_map(address).collect();
        Ok(Told { master, others })
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
