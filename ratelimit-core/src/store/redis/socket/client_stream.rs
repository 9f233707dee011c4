//! The client crate's side of a socket: it writes its commands between those of calls, and reads their replies.

use std::io;
use std::iter;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frame::FrameEnd;
use super::{Awaited, Socket};

/// A stream of the client crate's own commands and replies.
pub(in crate::store::redis) struct ClientStream {
    socket: Arc<Socket>,
    /// A command of which a part is missing.
    unfinished: Vec<u8>,
    /// Where it ends.
    end: FrameEnd,
}

impl ClientStream {
    pub(in crate::store::redis) fn new(socket: Arc<Socket>) -> Self {
        Self { socket, unfinished: Vec::new(), end: FrameEnd::default() }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        this.unfinished.extend_from_slice(bytes);
        let (mut commands, mut length) = (0, 0);
        while let Some(command) = this.end.find(&this.unfinished[length..])? {
            (commands, length) = (commands + 1, length + command);
        }
        let awaited = iter::repeat_with(|| Awaited::Client).take(commands);
        if !this.socket.0.send(&this.unfinished[..length], awaited) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        this.unfinished.drain(..length);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(self: Pin<&mut Self>, task: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.socket.0.client.poll_read(task, to)
    }
}
