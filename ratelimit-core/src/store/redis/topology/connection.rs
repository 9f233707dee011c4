//! A connection to a server or a cluster.

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, RedisResult, Value};

use super::cluster::ClusterWire;

/// A connection that many calls share.
#[derive(Clone)]
pub(in crate::store::redis) enum Wire {
    Single(MultiplexedConnection),
    Cluster(ClusterWire),
}

impl Wire {
    /// Sends one command; the server's errors, which the client hands on as values, become errors.
    pub(in crate::store::redis) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Single(wire) => wire.req_packed_command(command).await.and_then(Value::extract_error),
            Self::Cluster(wire) => wire.send(command).await,
        }
    }
}
