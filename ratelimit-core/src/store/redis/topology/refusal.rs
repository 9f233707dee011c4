//! A stream that notices why a server refuses a connection. The client crate drops text that is the reply to
//! no command.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use redis::RedisError;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::store::redis::error::SPEAKS_TLS;

/// Beginnings of the errors with which a server refuses a connection.
const REFUSALS: [&[u8]; 2] = [b"-ERR max number of clients reached", b"-DENIED "];

/// First byte of the reply of a server with TLS to a command without TLS.
const TLS_ALERT: u8 = 21;

/// A stream whose first bytes show whether the server refuses the connection.
pub(super) struct Refusable<S> {
    stream: S,
    has_read: bool,
    /// Why the server refused the connection.
    refusal: Arc<OnceLock<RedisError>>,
}

impl<S> Refusable<S> {
    pub(super) fn new(stream: S) -> (Self, Arc<OnceLock<RedisError>>) {
        let refusal = Arc::new(OnceLock::new());
        (Self { stream, has_read: false, refusal: Arc::clone(&refusal) }, refusal)
    }
}

/// The error that the first bytes stand for, if they are no reply.
fn refusal(first: &[u8]) -> Option<io::Error> {
    if first.is_empty() {
        return Some(closed_before_any_reply());
    }
    if first[0] == TLS_ALERT {
        return Some(io::Error::new(io::ErrorKind::InvalidData, SPEAKS_TLS));
    }
    REFUSALS.iter().any(|words| first.starts_with(words)).then(|| {
        let words = String::from_utf8_lossy(first);
        let words = words.lines().next().unwrap_or_default().trim_start_matches('-');
        io::Error::new(io::ErrorKind::BrokenPipe, format!("the server ended the connection: {words}"))
    })
}

/// The loss of a connection that the server has closed without a reply.
fn closed_before_any_reply() -> io::Error {
    let problem =
        "the server closed the connection before any reply; if it expects TLS, begin the URL with `rediss`";
    io::Error::new(io::ErrorKind::BrokenPipe, problem)
}

impl<S: AsyncRead + Unpin> AsyncRead for Refusable<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.has_read {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let before = buffer.filled().len();
        let refusal = match ready!(Pin::new(&mut self.stream).poll_read(context, buffer)) {
            Ok(()) => refusal(&buffer.filled()[before..]),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Some(closed_before_any_reply()),
            Err(error) => return Poll::Ready(Err(error)),
        };
        self.has_read = true;
        let Some(error) = refusal else { return Poll::Ready(Ok(())) };
        let kind = error.kind();
        let _ = self.refusal.set(RedisError::from(error));
        Poll::Ready(Err(kind.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Refusable<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_distinguish_a_refusal_from_a_reply() {
        let refused = |first: &[u8]| refusal(first).map(|error| error.to_string());
        for reply in
            [&b"+OK\r\n"[..], b"-NOAUTH Authentication required.\r\n", b"%7\r\n", b"-ERR unknown\r\n"]
        {
            assert_eq!(refused(reply), None, "{reply:?}");
        }
        let words = "the server ended the connection: ERR max number of clients reached";
        assert_eq!(refused(b"-ERR max number of clients reached\r\n").as_deref(), Some(words));
        assert!(
            refused(b"-DENIED Redis is running in protected mode\r\n").unwrap().contains("protected mode")
        );
        assert_eq!(refused(&[TLS_ALERT, 3, 3, 0, 2, 2, 70]).as_deref(), Some(SPEAKS_TLS));
        assert!(refused(b"").unwrap().contains("before any reply"));
    }
}
