//! A connection to one server: the client crate's, and the plain socket under it, over which calls go.
//!
//! Over TLS the client crate's connection has a socket of its own, and calls go over that connection.

use std::io;
use std::sync::Arc;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::io::tcp::socket2::SockRef;
use redis::{
    Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, Pipeline, RedisConnectionInfo, RedisError, RedisResult,
    Value,
};
use smallvec::SmallVec;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::connector::{Connector, connection_config, tcp_settings};
use crate::store::redis::error::is_lost;
use crate::store::redis::reply_sink::{CallId, ReplySink, hand_over};
#[cfg(unix)]
use crate::store::redis::socket::ClientStream;
use crate::store::redis::socket::Socket;

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
    pub(super) async fn open(server: &ConnectionInfo, connector: &Connector) -> RedisResult<Self> {
        let late = |_| RedisError::from(io::Error::from(io::ErrorKind::TimedOut));
        timeout(connector.timeouts.connect, Self::connect(server, connector)).await.map_err(late).flatten()
    }

    async fn connect(server: &ConnectionInfo, connector: &Connector) -> RedisResult<Self> {
        let settings = connector.settings(server).await?;
        match (server.addr(), &connector.tls) {
            (ConnectionAddr::Tcp(host, port), _) => {
                Self::over_plain(&settings, connect_tcp(host, *port).await?).await
            }
            (ConnectionAddr::TcpTls { host, port, .. }, Some(tls)) => {
                let stream = tls.connect(host, connect_tcp(host, *port).await?).await?;
                Self::over(&settings, stream, None).await
            }
            #[cfg(unix)]
            (ConnectionAddr::Unix(path), _) => {
                Self::over_plain(&settings, tokio::net::UnixStream::connect(path).await?).await
            }
            _ => Err(RedisError::from((
                ErrorKind::InvalidClientConfig,
                "no way to connect to such an address",
            ))),
        }
    }

    /// Lets the client crate's connection and calls share a plain stream.
    #[cfg(unix)]
    async fn over_plain(settings: &RedisConnectionInfo, stream: impl plain::IntoFd) -> RedisResult<Self> {
        let socket = Socket::start(stream.into_fd()?, Handle::current())?;
        Self::over(settings, ClientStream::new(Arc::clone(&socket)), Some(socket)).await
    }

    #[cfg(not(unix))]
    async fn over_plain(settings: &RedisConnectionInfo, stream: TcpStream) -> RedisResult<Self> {
        Self::over(settings, stream, None).await
    }

    async fn over(
        settings: &RedisConnectionInfo,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        socket: Option<Arc<Socket>>,
    ) -> RedisResult<Self> {
        let config = connection_config();
        let greeted = MultiplexedConnection::new_with_config(settings, stream, config).await;
        let (client, moves) = greeted.map_err(|error| explained(error, socket.as_deref()))?;
        let mut driver = JoinSet::new();
        driver.spawn(moves);
        Ok(Self(Arc::new(Connected { client, socket, _driver: driver })))
    }

    /// Sends one command by the client crate. Errors of the server, which it returns as values, become errors.
    pub(super) async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        let reply = self.0.client.clone().req_packed_command(command).await.and_then(Value::extract_error);
        reply.map_err(|error| explained(error, self.0.socket.as_deref()))
    }

    /// Sends commands with no other command between them, and gives the last reply.
    pub(super) async fn send_together(&self, commands: &[&Cmd]) -> RedisResult<Value> {
        let mut pipeline = Pipeline::with_capacity(commands.len());
        for &command in commands {
            pipeline.add_command(command.clone());
        }
        let replies = self.0.client.clone().req_packed_commands(&pipeline, 0, commands.len()).await?;
        replies.into_iter().last().unwrap_or(Value::Nil).extract_error()
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

/// The error of a command, or why its connection was lost, which the client crate does not know.
fn explained(error: RedisError, socket: Option<&Socket>) -> RedisError {
    match socket.and_then(Socket::loss) {
        Some(loss) if is_lost(&error) => loss.clone(),
        _ => error,
    }
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
            Ok(Ok(stream)) => return with_settings(stream),
            Ok(Err(error)) => failure = error,
            Err(_) => {}
        }
    }
    Err(failure)
}

fn with_settings(stream: TcpStream) -> io::Result<TcpStream> {
    let settings = tcp_settings();
    stream.set_nodelay(settings.nodelay())?;
    let socket = SockRef::from(&stream);
    if let Some(keepalive) = settings.keepalive() {
        socket.set_tcp_keepalive(keepalive)?;
    }
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    socket.set_tcp_user_timeout(settings.user_timeout())?;
    Ok(stream)
}

#[cfg(unix)]
mod plain {
    //! Streams that become sockets which block.

    use std::io;
    use std::os::fd::OwnedFd;

    use tokio::net::{TcpStream, UnixStream};

    pub(super) trait IntoFd {
        fn into_fd(self) -> io::Result<OwnedFd>;
    }

    impl IntoFd for TcpStream {
        fn into_fd(self) -> io::Result<OwnedFd> {
            let stream = self.into_std()?;
            stream.set_nonblocking(false)?;
            Ok(stream.into())
        }
    }

    impl IntoFd for UnixStream {
        fn into_fd(self) -> io::Result<OwnedFd> {
            let stream = self.into_std()?;
            stream.set_nonblocking(false)?;
            Ok(stream.into())
        }
    }
}
