//! A connection to one server: the client crate's, and the plain socket under it, over which calls go.
//!
//! Over TLS the client crate's connection has a socket of its own, and calls go over that connection.

use std::io;
use std::sync::Arc;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Client, Cmd, ErrorKind, Pipeline, RedisError, RedisResult, Value};
use smallvec::SmallVec;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::client::connection_config;
use crate::store::redis::error::is_lost;
use crate::store::redis::reply_sink::{CallId, ReplySink, hand_over};
#[cfg(unix)]
use crate::store::redis::socket::ClientStream;
use crate::store::redis::socket::Socket;
use crate::store::redis::timeouts::Timeouts;

/// A server: the single one, or a master of a cluster by its place in the list of all that were ever seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::store::redis) struct NodeId(pub(super) u16);

impl NodeId {
    /// The server of a store without a cluster.
    pub(in crate::store::redis) const SINGLE: Self = Self(0);

    #[cfg(test)]
    pub(in crate::store::redis) const fn of(index: u16) -> Self {
        Self(index)
    }

    pub(in crate::store::redis) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Which connection a call takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::redis) struct ConnectionId {
    pub(in crate::store::redis) node: NodeId,
    /// Number of the connection to the node; it rises with each.
    pub(in crate::store::redis) number: u64,
    /// Generation of the store's connection, against which failures count. In a cluster it outlives connections to nodes.
    pub(in crate::store::redis) generation: u64,
}

impl ConnectionId {
    /// Whether both name one connection to one node.
    pub(in crate::store::redis) fn is_same(self, other: Self) -> bool {
        (self.node, self.number) == (other.node, other.number)
    }
}

/// A connection over which calls go.
#[derive(Clone)]
pub(in crate::store::redis) struct Connection {
    pub(in crate::store::redis) id: ConnectionId,
    pub(in crate::store::redis) server: ServerConnection,
}

/// A connection to one server, which many calls share.
#[derive(Clone)]
pub(in crate::store::redis) struct ServerConnection(Arc<Connected>);

struct Connected {
    client: MultiplexedConnection,
    socket: Option<Arc<Socket>>,
    /// Moves the client crate's commands and replies.
    _driver: JoinSet<()>,
}

impl ServerConnection {
    /// Connects; the client crate greets the server.
    pub(super) async fn open(client: &Client, timeouts: Timeouts) -> RedisResult<Self> {
        let late = |_| RedisError::from(io::Error::from(io::ErrorKind::TimedOut));
        timeout(timeouts.connect, Self::connect(client, timeouts)).await.map_err(late).flatten()
    }

    async fn connect(client: &Client, timeouts: Timeouts) -> RedisResult<Self> {
        let config = connection_config(timeouts);
        #[cfg(unix)]
        if let Some(fd) = plain::connect(client.get_connection_info()).await? {
            let socket = Socket::start(fd, Handle::current())?;
            let stream = ClientStream::new(Arc::clone(&socket));
            let settings = client.get_connection_info().redis_settings();
            let greeted = MultiplexedConnection::new_with_config(settings, stream, config).await;
            let (client, moves) = greeted.map_err(|error| explained(error, Some(&socket)))?;
            let mut driver = JoinSet::new();
            driver.spawn(moves);
            return Ok(Self(Arc::new(Connected { client, socket: Some(socket), _driver: driver })));
        }
        let client = client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Self(Arc::new(Connected { client, socket: None, _driver: JoinSet::new() })))
    }

    /// Sends one command by the client crate. Errors of the server, which it returns as values, become errors.
    pub(super) async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        let reply = self.0.client.clone().req_packed_command(command).await.and_then(Value::extract_error);
        reply.map_err(|error| explained(error, self.0.socket.as_deref()))
    }

    /// Whether the connection answers a ping. Gives it up if the reply is not that of a ping: then other replies are not those of their
    /// commands either.
    pub(in crate::store::redis) async fn ping(&self) -> RedisResult<()> {
        if self.send(&redis::cmd("PING")).await? == Value::SimpleString("PONG".to_owned()) {
            return Ok(());
        }
        if let Some(socket) = &self.0.socket {
            socket.give_up();
        }
        Err(RedisError::from((ErrorKind::Parse, "the reply to PING is not PONG")))
    }

    /// Sends calls of a batch, numbered from `first`, whose replies go to `sink`. Returns false if the connection is lost: then
    /// none was sent.
    pub(in crate::store::redis) fn send_calls(
        &self,
        commands: SmallVec<[Cmd; 1]>,
        first: CallId,
        sink: &Arc<dyn ReplySink>,
        runtime: &Handle,
    ) -> bool {
        let calls = (0..commands.len()).map(move |place| CallId { index: first.index + place, ..first });
        if let Some(socket) = &self.0.socket {
            let mut bytes = Vec::new();
            commands.iter().for_each(|command| command.write_packed_command(&mut bytes));
            return socket.send_calls(&bytes, calls, sink);
        }
        let (mut client, sink) = (self.0.client.clone(), Arc::clone(sink));
        let mut pipeline = Pipeline::with_capacity(commands.len());
        commands.into_iter().for_each(|command| _ = pipeline.add_command(command));
        runtime.spawn(async move {
            let replies = match client.req_packed_commands(&pipeline, 0, calls.len()).await {
                Ok(replies) => replies.into_iter().map(Value::extract_error).collect::<Vec<_>>(),
                Err(error) => vec![Err(error); calls.len()],
            };
            for (call, reply) in calls.zip(replies) {
                hand_over(Arc::clone(&sink), call, reply);
            }
        });
        true
    }
}

/// The error of a command, or why its connection was lost: that the client crate does not know.
fn explained(error: RedisError, socket: Option<&Socket>) -> RedisError {
    match socket.and_then(Socket::loss) {
        Some(loss) if is_lost(&error) => loss.clone(),
        _ => error,
    }
}

#[cfg(unix)]
mod plain {
    //! Sockets without TLS.

    use std::os::fd::OwnedFd;

    use redis::io::tcp::socket2::SockRef;
    use redis::{ConnectionAddr, ConnectionInfo};
    use tokio::net::{TcpStream, UnixStream, lookup_host};

    use super::{JoinSet, io};

    /// Connects to a server; `None` for one with TLS. The socket blocks.
    pub(super) async fn connect(info: &ConnectionInfo) -> io::Result<Option<OwnedFd>> {
        let settings = info.tcp_settings();
        Ok(Some(match info.addr() {
            ConnectionAddr::Tcp(host, port) => {
                let stream = connect_tcp(host, *port).await?.into_std()?;
                stream.set_nodelay(settings.nodelay())?;
                let socket = SockRef::from(&stream);
                if let Some(keepalive) = settings.keepalive() {
                    socket.set_tcp_keepalive(keepalive)?;
                }
                #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
                socket.set_tcp_user_timeout(settings.user_timeout())?;
                stream.set_nonblocking(false)?;
                stream.into()
            }
            ConnectionAddr::Unix(path) => {
                let stream = UnixStream::connect(path).await?.into_std()?;
                stream.set_nonblocking(false)?;
                stream.into()
            }
            _ => return Ok(None),
        }))
    }

    /// Connects to whichever address of a host accepts first.
    async fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
        let mut attempts = JoinSet::new();
        for address in lookup_host((host, port)).await? {
            attempts.spawn(TcpStream::connect(address));
        }
        let mut failure = io::Error::from(io::ErrorKind::NotFound);
        while let Some(attempt) = attempts.join_next().await {
            match attempt {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => failure = error,
                Err(_) => {}
            }
        }
        Err(failure)
    }
}
