//! A connection to a cluster: asks once, and follows a slot that is about to move.
//!
//! The client crate repeats a question also when the connection was lost before the answer had arrived, when nobody knows
//! whether it was charged. So its own repetition is off, and here is what has to be repeated: what a node has refused
//! because a key has gone to another. That the slot itself has moved the client learns from the refusal; who asks again
//! is led to the new node.

use std::collections::HashMap;
use std::sync::Arc;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, RedisError, RedisResult, Value};
use tokio::sync::Mutex;

/// A connection that many calls share.
#[derive(Clone)]
pub(in crate::store::redis) struct ClusterWire {
    cluster: ClusterConnection,
    targets: Arc<Targets>,
}

/// Nodes that are taking over slots, with a connection to each. The client crate knows no node that has no slots yet.
struct Targets {
    dial: Box<Dial>,
    open: Mutex<HashMap<String, MultiplexedConnection>>,
    config: AsyncConnectionConfig,
}

/// Makes a client of the node at a host and port.
pub(super) type Dial = dyn Fn(&str, u16) -> RedisResult<Client> + Send + Sync;

impl ClusterWire {
    /// Asks nodes that take over slots by connections of their own, which `dial` knows how to make.
    pub(super) fn new(cluster: ClusterConnection, dial: Box<Dial>, config: AsyncConnectionConfig) -> Self {
        Self { cluster, targets: Arc::new(Targets { dial, open: Mutex::default(), config }) }
    }

    /// Sends one command to the node of its key.
    pub(super) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        let answer = self.cluster.req_packed_command(command).await.and_then(Value::extract_error);
        match answer {
            Err(error) if error.code() == Some("ASK") => match address(&error) {
                Some((name, host, port)) => self.targets.send(name, host, port, command).await,
                None => Err(error),
            },
            answer => answer,
        }
    }
}

impl Targets {
    /// Sends one command to a node that has its key already, though not yet the slot.
    async fn send(&self, name: &str, host: &str, port: u16, command: &Cmd) -> RedisResult<Value> {
        let mut wire = {
            let mut open = self.open.lock().await;
            if let Some(wire) = open.get(name) {
                wire.clone()
            } else {
                let client = (self.dial)(host, port)?;
                let wire = client.get_multiplexed_async_connection_with_config(&self.config).await?;
                open.insert(name.to_owned(), wire.clone());
                wire
            }
        };
        // Both travel together, so that nobody else's question comes between them.
        let mut both = redis::pipe();
        both.cmd("ASKING").add_command(command.clone());
        let answers = wire.req_packed_commands(&both, 0, 2).await;
        if answers.as_ref().is_err_and(|error| error.is_unrecoverable_error() || error.is_io_error()) {
            self.open.lock().await.remove(name);
        }
        let answer = answers?.into_iter().nth(1).unwrap_or(Value::Nil);
        answer.extract_error()
    }
}

/// Where a refusal leads to: all of it, its host, its port.
fn address(error: &RedisError) -> Option<(&str, &str, u16)> {
    let (name, _) = error.redirect_node()?;
    let (host, port) = name.rsplit_once(':')?;
    Some((name, host, port.parse().ok()?))
}
