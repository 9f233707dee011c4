//! A connection to a server or a cluster.

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, RedisResult, Value};

use super::cluster::RedirectingCluster;

/// A connection that many calls share.
#[derive(Clone)]
pub(in crate::store::redis) enum RedisConnection {
    Single(MultiplexedConnection),
    Cluster(RedirectingCluster),
}

impl RedisConnection {
    /// Sends one command. Errors of the server, which the client crate returns as values, become errors.
    pub(in crate::store::redis) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Single(connection) => {
                connection.req_packed_command(command).await.and_then(Value::extract_error)
            }
            // In a box: it may connect to another node, and the largest of all cases makes the size of every call.
            Self::Cluster(connection) => Box::pin(connection.send(command)).await,
        }
    }
}
