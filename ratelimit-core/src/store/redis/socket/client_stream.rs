//! The client crate's side of a socket: it writes its commands between those of calls, and reads their replies.

use std::collections::VecDeque;
use std::io;
use std::iter;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frame::FrameEnd;
use super::{Awaited, READ_SIZE, Socket};

/// A stream of the client crate's own commands and replies.
pub(in crate::store::redis) struct ClientStream {
    socket: Arc<Socket>,
    /// A command of which a part is missing.
    unfinished: Vec<u8>,
    /// Where it ends.
    end: FrameEnd,
}

/// Replies that the client crate has not read yet.
#[derive(Default)]
pub(super) struct ClientReplies(Mutex<Unread>);

#[derive(Default)]
struct Unread {
    bytes: VecDeque<u8>,
    has_ended: bool,
    reader: Option<Waker>,
}

impl ClientReplies {
    pub(super) fn add(&self, frame: &[u8]) {
        let mut unread = self.0.lock();
        unread.bytes.extend(frame);
        wake(unread.reader.take());
    }

    /// No more replies come.
    pub(super) fn end(&self) {
        let mut unread = self.0.lock();
        unread.has_ended = true;
        wake(unread.reader.take());
    }
}

fn wake(reader: Option<Waker>) {
    if let Some(reader) = reader {
        reader.wake();
    }
}

impl ClientStream {
    pub(in crate::store::redis) const fn new(socket: Arc<Socket>) -> Self {
        Self { socket, unfinished: Vec::new(), end: FrameEnd::new() }
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
        let mut unread = self.socket.0.client.0.lock();
        if unread.bytes.is_empty() && !unread.has_ended {
            unread.reader = Some(task.waker().clone());
            return Poll::Pending;
        }
        let next = unread.bytes.as_slices().0;
        let count = next.len().min(to.remaining());
        to.put_slice(&next[..count]);
        unread.bytes.drain(..count);
        if unread.bytes.is_empty() {
            unread.bytes.shrink_to(READ_SIZE);
        }
        Poll::Ready(Ok(()))
    }
}
