//! A cluster connection that sends each command once and follows `ASK` redirects.
//!
//! The client crate sends a command again even if the connection was lost before the reply, when it is unknown whether the
//! command ran. So its own retries are off, and this module repeats only commands that a node rejected because the key
//! has moved. The client crate learns from a `MOVED` error that a hash slot has moved; sending again then reaches the new node.

use std::collections::HashMap;
use std::sync::Arc;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, RedisError, RedisResult, Value};
use tokio::sync::Mutex;

use crate::store::redis::error::is_lost;

/// A connection that many calls share.
#[derive(Clone)]
pub(in crate::store::redis) struct RedirectingCluster {
    cluster: ClusterConnection,
    targets: Arc<MigrationTargets>,
}

/// Nodes that are taking over hash slots, with a connection to each. The client crate does not know a node without hash slots.
struct MigrationTargets {
    connect_to: Box<ConnectTo>,
    open: Mutex<HashMap<String, MultiplexedConnection>>,
    config: AsyncConnectionConfig,
}

/// Makes a client of the node at a host and port.
pub(super) type ConnectTo = dyn Fn(&str, u16) -> RedisResult<Client> + Send + Sync;

impl RedirectingCluster {
    /// `connect_to` makes clients of nodes that are taking over hash slots.
    pub(super) fn new(
        cluster: ClusterConnection,
        connect_to: Box<ConnectTo>,
        config: AsyncConnectionConfig,
    ) -> Self {
        Self { cluster, targets: Arc::new(MigrationTargets { connect_to, open: Mutex::default(), config }) }
    }

    /// The client crate's connection.
    pub(in crate::store::redis) fn client_connection(&self) -> ClusterConnection {
        self.cluster.clone()
    }

    /// Sends one command to the node of its key.
    pub(super) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        let reply = self.cluster.req_packed_command(command).await.and_then(Value::extract_error);
        match reply {
            Err(error) if error.code() == Some("ASK") => match address(&error) {
                Some((name, host, port)) => self.targets.send(name, host, port, command).await,
                None => Err(error),
            },
            reply => reply,
        }
    }
}

impl MigrationTargets {
    /// Sends one command to a node that already has its key but not yet the hash slot.
    async fn send(&self, name: &str, host: &str, port: u16, command: &Cmd) -> RedisResult<Value> {
        let mut connection = {
            let mut open = self.open.lock().await;
            if let Some(connection) = open.get(name) {
                connection.clone()
            } else {
                let client = (self.connect_to)(host, port)?;
                let connection = client.get_multiplexed_async_connection_with_config(&self.config).await?;
                open.insert(name.to_owned(), connection.clone());
                connection
            }
        };
        // In one pipeline, so that no other command comes between the two.
        let mut both = redis::pipe();
        both.cmd("ASKING").add_command(command.clone());
        let replies = connection.req_packed_commands(&both, 0, 2).await;
        if replies.as_ref().is_err_and(is_lost) {
            self.open.lock().await.remove(name);
        }
        let reply = replies?.into_iter().nth(1).unwrap_or(Value::Nil);
        reply.extract_error()
    }
}

/// The node that a redirect names: its whole address, its host, its port.
fn address(error: &RedisError) -> Option<(&str, &str, u16)> {
    let (name, _) = error.redirect_node()?;
    let (host, port) = name.rsplit_once(':')?;
    Some((name, host, port.parse().ok()?))
}
