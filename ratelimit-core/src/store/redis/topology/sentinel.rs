//! Sentinel: finding the master.

use redis::{ConnectionInfo, ErrorKind, RedisConnectionInfo, RedisError, RedisResult, Value};

use super::connector::{Connector, server_at};
use super::server::ServerConnection;

/// The sentinels of a service.
pub(super) struct Sentinels {
    /// One after the other is asked, the one that answered last first. A URL with credentials has those of the servers.
    pub(super) nodes: Vec<ConnectionInfo>,
    pub(super) service: String,
}

impl Sentinels {
    /// A connection to the master. Sentinels are asked until one names a server that says itself that it is a master: it may have been
    /// demoted, or not been promoted yet. Whether the sentinel takes it for down does not matter: after a pause of its process a sentinel
    /// judges nothing for 30 s (TILT), and takes for down what it took for down before.
    pub(super) async fn connect_to_master(&mut self, connector: &Connector) -> RedisResult<ServerConnection> {
        let mut failure = RedisError::from((ErrorKind::EmptySentinelList, "there is no sentinel"));
        let mut tried: Vec<(String, u16)> = Vec::new();
        for _ in 0..self.nodes.len() {
            match self.named_by_first(connector).await {
                Ok(named) if tried.contains(&named) => {}
                Ok(named) => {
                    let master = server_at(&self.nodes[0], &named.0, named.1);
                    match connect_to_master(&master, connector).await {
                        Ok(connection) => return Ok(connection),
                        Err(error) => failure = error,
                    }
                    tried.push(named);
                }
                // What a server says tells more.
                Err(error) if failure.code().is_none() => failure = error,
                Err(_) => {}
            }
            self.nodes.rotate_left(1);
        }
        Err(failure)
    }

    /// Host and port of the master that the first sentinel names.
    async fn named_by_first(&self, connector: &Connector) -> RedisResult<(String, u16)> {
        // A sentinel usually has no users.
        let sentinel = self.nodes[0].clone().set_redis_settings(RedisConnectionInfo::default());
        let connection = ServerConnection::open(&sentinel, &connector.without_credentials()).await?;
        let mut ask = redis::cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.service);
        let named: Option<(String, u16)> = redis::from_redis_value(connection.send(&ask).await?)?;
        named.ok_or_else(|| {
            RedisError::from((
                ErrorKind::MasterNameNotFoundBySentinel,
                "the sentinel knows no service of this name",
                self.service.clone(),
            ))
        })
    }
}

async fn connect_to_master(server: &ConnectionInfo, connector: &Connector) -> RedisResult<ServerConnection> {
    let connection = ServerConnection::open(server, connector).await?;
    match connection.send(&redis::cmd("ROLE")).await? {
        Value::Array(role) if role.first() == Some(&Value::BulkString(b"master".to_vec())) => Ok(connection),
        _ => Err(RedisError::from((ErrorKind::Client, "the server that the sentinel names is no master"))),
    }
}
