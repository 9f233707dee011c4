//! A plain socket to one server: any thread writes to it without waiting, and one thread reads from it by blocking.
//!
//! A request that is written by its own thread takes one hand-over less than one that another thread writes, and a thread that
//! does nothing but read gives it its reply in time while the application's threads are busy. The client crate's connection
//! ([`ClientStream`]) shares the socket, so that all commands to a server have one order.

mod client_replies;
mod client_stream;
mod frame;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use redis::{ErrorKind, RedisError, RedisResult, Value};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown};
use tokio::runtime::Handle;
use tokio::time::sleep;

use self::client_replies::ClientReplies;
pub(super) use self::client_stream::ClientStream;
use self::frame::{FrameEnd, value_of};
use super::error::SPEAKS_TLS;
use super::reply_sink::{CallId, ReplySink, hand_over};

/// Bytes that are read at a time; more than the replies to one batch.
const READ_SIZE: usize = 16 * 1024;

/// Pause before another attempt to write what did not fit into the socket's buffer.
const FLUSH_INTERVAL: Duration = Duration::from_millis(1);

/// Whose the next reply is.
enum Awaited {
    Client,
    /// Weak, because a queue has its connection, and would never be dropped while a reply does not come.
    Call(Weak<dyn ReplySink>, CallId),
}

/// A socket, which is shut down when this is dropped. A call in flight keeps it.
pub(super) struct Socket(Arc<Shared>);

/// What writers and the reading thread share.
struct Shared {
    fd: OwnedFd,
    /// What did not fit into the socket's buffer. Locked before `awaited`, so that replies are awaited in the order of commands.
    unsent: Mutex<Vec<u8>>,
    /// In the order of the replies; `None` once the connection is lost.
    awaited: Mutex<Option<VecDeque<Awaited>>>,
    client: ClientReplies,
    /// Why the connection was lost.
    loss: OnceLock<RedisError>,
    /// Where what did not fit is written later.
    runtime: Handle,
}

impl Socket {
    /// Takes over a connected socket that blocks, and starts the thread that reads from it.
    pub(super) fn start(fd: OwnedFd, runtime: Handle) -> io::Result<Arc<Self>> {
        let shared = Arc::new(Shared {
            fd,
            unsent: Mutex::default(),
            awaited: Mutex::new(Some(VecDeque::new())),
            client: ClientReplies::default(),
            loss: OnceLock::new(),
            runtime,
        });
        let reader = Arc::clone(&shared);
        thread::Builder::new().name("ratelimit-read".to_owned()).spawn(move || reader.read_until_lost())?;
        Ok(Arc::new(Self(shared)))
    }

    /// Why the connection was lost, if it was.
    pub(super) fn loss(&self) -> Option<&RedisError> {
        self.0.loss.get()
    }

    /// Gives the connection up, such as one whose replies are those of other commands.
    pub(super) fn give_up(&self) {
        self.0.shut_down();
    }

    /// Writes the packed commands of calls, whose replies go to `sink`. Returns false if the connection is lost: then
    /// nothing was written.
    pub(super) fn send_calls(
        &self,
        commands: &[u8],
        calls: impl IntoIterator<Item = CallId>,
        sink: &Arc<dyn ReplySink>,
    ) -> bool {
        self.0.send(commands, calls.into_iter().map(|call| Awaited::Call(Arc::downgrade(sink), call)))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.0.shut_down();
    }
}

impl Shared {
    fn send(self: &Arc<Self>, commands: &[u8], awaited: impl Iterator<Item = Awaited>) -> bool {
        let mut unsent = self.unsent.lock();
        match &mut *self.awaited.lock() {
            Some(queue) => queue.extend(awaited),
            None => return false,
        }
        if !unsent.is_empty() {
            unsent.extend_from_slice(commands);
            return true;
        }
        let written = self.write(commands);
        if written < commands.len() {
            unsent.extend_from_slice(&commands[written..]);
            let shared = Arc::clone(self);
            self.runtime.spawn(async move {
                while !shared.flush() {
                    sleep(FLUSH_INTERVAL).await;
                }
            });
        }
        true
    }

    /// Writes what fits into the socket's buffer. Returns its length; that of all if the connection is lost, which the
    /// reading thread notices.
    fn write(&self, bytes: &[u8]) -> usize {
        #[cfg(target_vendor = "apple")]
        let flags = SendFlags::DONTWAIT;
        #[cfg(not(target_vendor = "apple"))]
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut written = 0;
        while written < bytes.len() {
            match rustix::net::send(&self.fd, &bytes[written..], flags) {
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return written,
                Err(_) => {
                    self.shut_down();
                    return bytes.len();
                }
            }
        }
        written
    }

    /// Writes what did not fit. Returns whether nothing is left.
    fn flush(&self) -> bool {
        let mut unsent = self.unsent.lock();
        let written = self.write(&unsent);
        unsent.drain(..written);
        unsent.is_empty()
    }

    /// Ends the thread that reads, and everything that waits for a reply.
    fn shut_down(&self) {
        // An error means that it has ended.
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Both);
    }

    fn read_until_lost(&self) {
        let (mut buffer, mut filled, mut end) = (vec![0; READ_SIZE], 0, FrameEnd::default());
        let mut has_replied = false;
        let lost = loop {
            if filled == buffer.len() {
                buffer.resize(2 * filled, 0);
            }
            match rustix::io::read(&self.fd, &mut buffer[filled..]) {
                // As the client crate reports it.
                Ok(0) | Err(Errno::CONNRESET) if !has_replied => break closed_before_any_reply(),
                Ok(0) => break io::ErrorKind::BrokenPipe.into(),
                Ok(count) => filled += count,
                Err(Errno::INTR) => continue,
                Err(error) => break error.into(),
            }
            if !has_replied && buffer[0] == TLS_ALERT {
                break io::Error::new(io::ErrorKind::InvalidData, SPEAKS_TLS);
            }
            match self.deliver(&buffer[..filled], &mut end) {
                Ok(used) => {
                    has_replied |= used > 0;
                    buffer.copy_within(used..filled, 0);
                    filled -= used;
                    if filled < READ_SIZE && buffer.len() > READ_SIZE {
                        buffer.truncate(READ_SIZE);
                        buffer.shrink_to_fit();
                    }
                }
                Err(error) => break error,
            }
        };
        self.lose(&RedisError::from(lost));
    }

    /// Gives whole replies to those that wait for them. Returns the number of bytes of these. `end` is that of the first one.
    fn deliver(&self, bytes: &[u8], end: &mut FrameEnd) -> io::Result<usize> {
        let mut used = 0;
        while let Some(length) = end.find(&bytes[used..])? {
            let frame = &bytes[used..used + length];
            used += length;
            let awaited = match frame.first() {
                Some(b'>') => None,
                _ => self.awaited.lock().as_mut().and_then(VecDeque::pop_front),
            };
            let is_its_own = match &awaited {
                Some(Awaited::Call(sink, call)) => {
                    let value = value_of(frame);
                    let is_value = !value.as_ref().is_err_and(|error| error.kind() == ErrorKind::Parse);
                    reply(sink, *call, value) && is_value
                }
                None if frame.starts_with(b"-") => return Err(last_words(frame)),
                // The server may have refused the connection after a command was sent.
                Some(Awaited::Client) if REFUSALS.iter().any(|words| frame.starts_with(words)) => {
                    return Err(last_words(frame));
                }
                // Messages that are no replies are the client crate's.
                Some(Awaited::Client) | None => {
                    self.client.add(frame);
                    awaited.is_some() || frame.starts_with(b">")
                }
            };
            if !is_its_own {
                let problem = "the server sent a reply that is not that of a command";
                return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
            }
        }
        Ok(used)
    }

    /// Fails everything that waits for a reply, and every later command.
    fn lose(&self, error: &RedisError) {
        self.shut_down();
        let _ = self.loss.set(error.clone());
        let awaited = self.awaited.lock().take().unwrap_or_default();
        self.client.end();
        for awaited in awaited {
            if let Awaited::Call(sink, call) = awaited {
                reply(&sink, call, Err(error.clone()));
            }
        }
    }
}

/// How a server begins the error with which it refuses a connection.
const REFUSALS: [&[u8]; 2] = [b"-ERR max number of clients reached", b"-DENIED "];

/// The first byte of the reply of a server with TLS to a command without.
const TLS_ALERT: u8 = 21;

/// The loss of a connection that the server has closed without a reply.
fn closed_before_any_reply() -> io::Error {
    let problem =
        "the server closed the connection before any reply; if it expects TLS, begin the URL with `rediss`";
    io::Error::new(io::ErrorKind::BrokenPipe, problem)
}

/// The loss of a connection that the server ends with an error, which is the reply to no command.
fn last_words(frame: &[u8]) -> io::Error {
    let words = String::from_utf8_lossy(frame);
    let words = words.trim_start_matches('-').trim_end();
    io::Error::new(io::ErrorKind::BrokenPipe, format!("the server ended the connection: {words}"))
}

/// Hands a reply over, unless its queue is gone. Returns false if it is not that of the call.
fn reply(sink: &Weak<dyn ReplySink>, call: CallId, reply: RedisResult<Value>) -> bool {
    sink.upgrade().is_none_or(|sink| hand_over(sink, call, reply))
}
