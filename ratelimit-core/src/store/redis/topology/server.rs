//! A connection to one server, over the client crate's multiplexed connection.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, ErrorKind, Pipeline, RedisError, RedisResult, Value};
use smallvec::{SmallVec, smallvec};
use tokio::time::timeout;

use super::client::connection_config;
use crate::store::redis::timeouts::Timeouts;

/// A server: the single one, or a master of a cluster by its place in the list of all that were ever seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::store::redis) struct NodeId(pub(super) u16);

impl NodeId {
    /// The server of a store without a cluster.
    pub(in crate::store::redis) const SINGLE: Self = Self(0);

    pub(in crate::store::redis) const fn of(index: u16) -> Self {
        Self(index)
    }

    pub(in crate::store::redis) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Which connection of a lane a call takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::redis) struct ConnectionId {
    pub(in crate::store::redis) node: NodeId,
    /// Number of the lane's connection to the node; it rises with each.
    pub(in crate::store::redis) number: u64,
    /// Generation of the store's connection, against which failures count.
    pub(in crate::store::redis) generation: u64,
}

/// A connection over which calls go.
#[derive(Clone)]
pub(in crate::store::redis) struct Connection {
    pub(in crate::store::redis) id: ConnectionId,
    pub(in crate::store::redis) server: ServerConnection,
}

/// The replies to calls that were sent together, in their order.
pub(in crate::store::redis) type CallReplies = SmallVec<[RedisResult<Value>; 1]>;

/// A connection to one server, which many calls share. The client crate's task that moves its bytes runs on the runtime that opened it.
#[derive(Clone)]
pub(in crate::store::redis) struct ServerConnection(Arc<Connected>);

struct Connected {
    client: Client,
    connection: MultiplexedConnection,
    is_given_up: AtomicBool,
}

impl ServerConnection {
    /// Connects; the client crate greets the server.
    pub(in crate::store::redis) async fn open(client: &Client, timeouts: Timeouts) -> RedisResult<Self> {
        let late = |_| RedisError::from(io::Error::from(io::ErrorKind::TimedOut));
        let config = connection_config(timeouts);
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        let connection = timeout(timeouts.connect, connecting).await.map_err(late).flatten()?;
        Ok(Self(Arc::new(Connected {
            client: client.clone(),
            connection,
            is_given_up: AtomicBool::new(false),
        })))
    }

    /// A client that makes other connections to this server.
    pub(in crate::store::redis) fn client(&self) -> Client {
        self.0.client.clone()
    }

    /// Sends one command. Errors of the server, which the client crate returns as values, become errors.
    pub(in crate::store::redis) async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        self.0.connection.clone().send_packed_command(command).await.and_then(Value::extract_error)
    }

    /// A reply was not that of its call, so others are not either.
    pub(in crate::store::redis) fn give_up(&self) {
        self.0.is_given_up.store(true, Ordering::Relaxed);
    }

    pub(in crate::store::redis) fn is_given_up(&self) -> bool {
        self.0.is_given_up.load(Ordering::Relaxed)
    }

    /// Whether the connection answers a ping. If the reply is not that of a ping, other replies are not those of their commands either.
    pub(in crate::store::redis) async fn ping(&self) -> RedisResult<()> {
        if self.send(&redis::cmd("PING")).await? == Value::SimpleString("PONG".to_owned()) {
            return Ok(());
        }
        self.give_up();
        Err(RedisError::from((ErrorKind::Parse, "the reply to PING is not PONG")))
    }

    /// Sends the commands of calls in one write.
    pub(in crate::store::redis) async fn send_calls(&self, mut commands: SmallVec<[Cmd; 1]>) -> CallReplies {
        if commands.len() == 1
            && let Some(command) = commands.pop()
        {
            return smallvec![self.send(&command).await];
        }
        let count = commands.len();
        let mut pipeline = Pipeline::with_capacity(count);
        commands.into_iter().for_each(|command| _ = pipeline.add_command(command));
        match self.0.connection.clone().send_packed_commands(&pipeline, 0, count).await {
            Ok(replies) => replies.into_iter().map(Value::extract_error).collect(),
            Err(error) => smallvec![Err(error); count],
        }
    }
}
