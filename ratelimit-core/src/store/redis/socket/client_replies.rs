//! Replies that the client crate has not read yet.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::io::ReadBuf;

/// Memory in bytes that is kept for the next replies.
const KEPT: usize = 16 * 1024;

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

    /// Reads what has come; nothing at the end.
    pub(super) fn poll_read(&self, task: &Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut unread = self.0.lock();
        if unread.bytes.is_empty() && !unread.has_ended {
            unread.reader = Some(task.waker().clone());
            return Poll::Pending;
        }
        let next = unread.bytes.as_slices().0;
        let count = next.len().min(to.remaining());
        to.put_slice(&next[..count]);
        unread.bytes.drain(..count);
        if unread.bytes.is_empty() {
            unread.bytes.shrink_to(KEPT);
        }
        Poll::Ready(Ok(()))
    }
}

fn wake(reader: Option<Waker>) {
    if let Some(reader) = reader {
        reader.wake();
    }
}
