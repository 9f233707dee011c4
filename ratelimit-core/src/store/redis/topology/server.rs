//! A connection to one server, over the client crate's multiplexed connection.

use std::io;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use redis::aio::MultiplexedConnection;
use redis::io::tcp::socket2::SockRef;
use redis::{
    Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, Pipeline, RedisConnectionInfo, RedisError, RedisResult,
    Value,
};
use smallvec::{SmallVec, smallvec};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio::try_join;

use super::connector::{Connector, connection_config, tcp_settings};
use super::refusal::Refusable;
use super::tls::Handshake;
use crate::store::redis::breaker::Breaker;
use crate::store::redis::error::is_lost;

/// The replies to calls that were sent together, in their order.
pub(in crate::store::redis) type CallReplies = SmallVec<[RedisResult<Value>; 1]>;

/// How to connect to one server.
#[derive(Clone)]
pub(in crate::store::redis) struct Server {
    pub(super) settings: ConnectionInfo,
    pub(super) connector: Connector,
    /// Address of an existing connection. Further connections lead to it as well, although the host name may
    /// by now stand for another server.
    pub(super) address: Option<SocketAddr>,
}

/// A connection to one server, which many calls share. The task that moves its bytes runs on the runtime that
/// connected.
#[derive(Clone)]
pub(in crate::store::redis) struct ServerConnection(Arc<Connected>);

struct Connected {
    server: Server,
    client: MultiplexedConnection,
    refusal: Arc<OnceLock<RedisError>>,
    /// Whether the task that moves bytes has ended.
    is_closed: Arc<AtomicBool>,
    is_given_up: AtomicBool,
    /// Weight of the timeouts in a row.
    silence: AtomicU32,
    /// Moves bytes.
    task: AbortHandle,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Connects, after the function for credentials, the look-up of the host and the loading of certificates.
    /// Each of these may take as long as the attempt that follows.
    pub(in crate::store::redis) async fn connect(self) -> RedisResult<ServerConnection> {
        let (settings, addresses, handshake) =
            try_join!(self.connector.settings(&self.settings), self.addresses(), self.handshake())?;
        let late = |_| RedisError::from(io::Error::from(io::ErrorKind::TimedOut));
        let longest = self.connector.timeouts.connect;
        timeout(longest, self.connect_to(addresses, &settings, handshake)).await.map_err(late).flatten()
    }

    /// Addresses of the host; none for a path.
    async fn addresses(&self) -> RedisResult<Vec<SocketAddr>> {
        match (self.address, self.settings.addr()) {
            (Some(address), _) => Ok(vec![address]),
            (None, ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. }) => {
                self.connector.hosts.addresses(host, *port).await
            }
            (None, _) => Ok(Vec::new()),
        }
    }

    /// The settings of TLS, if the server has TLS.
    async fn handshake(&self) -> RedisResult<Option<Handshake>> {
        match (self.settings.addr(), &self.connector.tls) {
            (ConnectionAddr::TcpTls { .. }, Some(tls)) => Ok(Some(tls.handshake().await?)),
            _ => Ok(None),
        }
    }

    async fn connect_to(
        self,
        addresses: Vec<SocketAddr>,
        settings: &RedisConnectionInfo,
        handshake: Option<Handshake>,
    ) -> RedisResult<ServerConnection> {
        match (self.settings.addr(), handshake) {
            (ConnectionAddr::Tcp(..), _) => {
                let stream = connect_to_any(addresses).await?;
                let address = stream.peer_addr().ok();
                Self { address, ..self }.over(settings, stream).await
            }
            (ConnectionAddr::TcpTls { host, .. }, Some(handshake)) => {
                let stream = connect_to_any(addresses).await?;
                let address = stream.peer_addr().ok();
                let stream = handshake.with(host, stream).await?;
                Self { address, ..self }.over(settings, stream).await
            }
            #[cfg(unix)]
            (ConnectionAddr::Unix(path), _) => {
                let stream = tokio::net::UnixStream::connect(path).await?;
                self.over(settings, stream).await
            }
            _ => Err(RedisError::from((
                ErrorKind::InvalidClientConfig,
                "no way to connect to such an address",
            ))),
        }
    }

    async fn over(
        self,
        settings: &RedisConnectionInfo,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> RedisResult<ServerConnection> {
        let (stream, refusal) = Refusable::new(stream);
        let greeted = MultiplexedConnection::new_with_config(settings, stream, connection_config()).await;
        let (client, driver) = greeted.map_err(|error| explained(error, &refusal))?;
        let is_closed = Arc::new(AtomicBool::new(false));
        let closing = SetWhenDropped(Arc::clone(&is_closed));
        let task = tokio::spawn(async move {
            let _closing = closing;
            driver.await;
        });
        let (task, is_given_up, silence) = (task.abort_handle(), AtomicBool::new(false), AtomicU32::new(0));
        let connected = Connected { server: self, client, refusal, is_closed, is_given_up, silence, task };
        Ok(ServerConnection(Arc::new(connected)))
    }
}

/// Sets a flag when the future that has it ends, or is dropped with its runtime.
struct SetWhenDropped(Arc<AtomicBool>);

impl Drop for SetWhenDropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl ServerConnection {
    /// Connects. The client crate sends the first commands, such as `AUTH`.
    pub(super) async fn open(server: &ConnectionInfo, connector: &Connector) -> RedisResult<Self> {
        let (settings, connector) = (server.clone(), connector.clone());
        Server { settings, connector, address: None }.connect().await
    }

    /// The server, for another connection to it.
    pub(in crate::store::redis) fn server(&self) -> Server {
        self.0.server.clone()
    }

    /// Sends one command. Errors of the server, which the client crate returns as values, become errors.
    pub(in crate::store::redis) async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        let reply = self.0.client.clone().send_packed_command(command).await.and_then(Value::extract_error);
        reply.map_err(|error| explained(error, &self.0.refusal))
    }

    /// Sends a command to a node that has its key, but not yet the hash slot.
    pub(in crate::store::redis) async fn send_asking(&self, command: &Cmd) -> RedisResult<Value> {
        let asking = redis::cmd("ASKING");
        self.send_calls(smallvec![&asking, command]).await.pop().unwrap_or(Ok(Value::Nil))
    }

    /// Sends the commands of calls in one write.
    pub(in crate::store::redis) async fn send_calls(&self, commands: SmallVec<[&Cmd; 1]>) -> CallReplies {
        if let [command] = commands[..] {
            return smallvec![self.send(command).await];
        }
        let count = commands.len();
        let mut pipeline = Pipeline::with_capacity(count);
        commands.into_iter().for_each(|command| _ = pipeline.add_command(command.clone()));
        let replies = async move { self.0.client.clone().send_packed_commands(&pipeline, 0, count).await };
        // In a box, so that the future of a single command has no room for a pipeline.
        match Box::pin(replies).await {
            Ok(replies) => replies.into_iter().map(Value::extract_error).collect(),
            Err(error) => smallvec![Err(explained(error, &self.0.refusal)); count],
        }
    }

    /// Sends a ping. Gives the connection up if the reply is not that of a ping: then replies no longer
    /// belong to their commands.
    pub(in crate::store::redis) async fn ping(&self) -> RedisResult<()> {
        if self.send(&redis::cmd("PING")).await? == Value::SimpleString("PONG".to_owned()) {
            return Ok(());
        }
        self.give_up();
        Err(RedisError::from((ErrorKind::Parse, "the reply to PING is not PONG")))
    }

    /// Counts a call without a reply. Gives the connection up after as many of them in a row as open the
    /// breaker, whether other connections get replies or not. Returns whether it did.
    pub(in crate::store::redis) fn note_silence(&self, breaker: Breaker) -> bool {
        let is_silent = breaker.record_failure(&self.0.silence, breaker.timeout_weight());
        if is_silent {
            self.give_up();
        }
        is_silent
    }

    /// Notes that a reply has come: the connection is not silent.
    pub(in crate::store::redis) fn note_reply(&self) {
        // A load first, because this runs for every call.
        if self.0.silence.load(Ordering::Relaxed) > 0 {
            self.0.silence.store(0, Ordering::Relaxed);
        }
    }

    /// Ends the connection, and every call over it: it is silent, or replies no longer belong to their calls.
    pub(in crate::store::redis) fn give_up(&self) {
        self.0.is_given_up.store(true, Ordering::Release);
        self.0.task.abort();
    }

    pub(in crate::store::redis) fn is_given_up(&self) -> bool {
        self.0.is_given_up.load(Ordering::Acquire)
    }

    /// Whether the connection has ended, so that nothing is written any more.
    pub(in crate::store::redis) fn is_closed(&self) -> bool {
        self.0.is_closed.load(Ordering::Acquire) || self.is_given_up()
    }
}

/// The error of a command, or why the server refused the connection, which the client crate does not know.
fn explained(error: RedisError, refusal: &OnceLock<RedisError>) -> RedisError {
    match refusal.get() {
        Some(refusal) if is_lost(&error) => refusal.clone(),
        _ => error,
    }
}

/// Connects to the address that accepts first.
async fn connect_to_any(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut attempts = JoinSet::new();
    for address in addresses {
        attempts.spawn(TcpStream::connect(address));
    }
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    while let Some(attempt) = attempts.join_next().await {
        match attempt {
            Ok(Ok(stream)) => return with_settings(stream),
            Ok(Err(error)) => failure = error,
            // A panic, such as in a runtime without IO. A worker's runtime has IO.
            Err(error) => {
                if let Ok(panic) = error.try_into_panic() {
                    resume_unwind(panic);
                }
            }
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Mutex;
    use std::sync::atomic::Ordering;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::store::redis::link::tests::connection;
    use crate::store::redis::timeouts::Timeouts;
    use crate::store::redis::timeouts::tests::TIMEOUTS;
    use crate::store::redis::topology::hosts::tests::hosts_by;
    use crate::store::redis::topology::url::connection_info;

    #[tokio::test]
    async fn a_further_connection_leads_to_the_same_server_whatever_has_its_name_by_then() {
        // Kept open: the server ends with its first connection.
        let first = connection("", channel().0).await;
        let server = first.server();
        let (hosts, lookups) = hosts_by("redis://moved.test", server.connector.timeouts.connect, Vec::new);
        let connector = Connector { hosts: Arc::new(hosts), ..server.connector.clone() };
        let settings = connection_info("redis://moved.test:1").unwrap();
        let moved = Server { settings, connector, ..server.clone() };
        let further = moved.connect().await.unwrap().server();
        assert_eq!((further.address, lookups.load(Ordering::SeqCst)), (server.address, 0));
    }

    /// Otherwise the second of two calls waits for the acknowledgement of the first, and a lost peer is
    /// noticed late.
    #[tokio::test]
    async fn a_connection_has_the_settings_of_its_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = connect_to_any(vec![listener.local_addr().unwrap()]).await.unwrap();
        assert!(stream.nodelay().unwrap());
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(2)));
    }

    #[tokio::test]
    async fn a_look_up_that_takes_longer_than_the_connect_timeout_serves_the_next_attempt() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (answer, answered) = channel::<()>();
        let answered = Mutex::new(answered);
        let look_up = move || answered.lock().unwrap().recv().map(|()| vec![address]).unwrap();
        let timeouts = Timeouts { connect: Duration::from_millis(50), ..TIMEOUTS };
        let (hosts, lookups) = hosts_by("redis://slow.test", timeouts.connect, look_up);
        let mut connector = Connector { timeouts, hosts: Arc::new(hosts), tls: None, credentials: None };
        let settings = connection_info("redis://slow.test").unwrap();
        for _ in 0..3 {
            let slow = ServerConnection::open(&settings, &connector).await.map(drop).unwrap_err().to_string();
            let start = "the look-up of the Redis host `slow.test` takes longer than `connect_timeout`, 50ms";
            assert!(slow.starts_with(start), "{slow}");
        }
        answer.send(()).unwrap();
        // Only the look-up was slow.
        connector.timeouts.connect = Duration::from_secs(30);
        let mut connected = ServerConnection::open(&settings, &connector).await;
        for _ in 0..600 {
            if connected.is_err() {
                connected = ServerConnection::open(&settings, &connector).await;
            }
        }
        assert_eq!(connected.unwrap().server().address, Some(address));
        assert_eq!(lookups.load(Ordering::SeqCst), 1, "attempts wait for the same look-up");
    }
}
