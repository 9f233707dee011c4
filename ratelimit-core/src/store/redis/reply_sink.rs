//! Where the reply to a call goes, whichever way it was sent.

use std::sync::Arc;

use redis::{RedisResult, Value};

/// A call in flight: its batch, and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallId {
    pub(super) batch: u64,
    pub(super) index: usize,
}

/// Takes the replies to calls, on any thread.
pub(super) trait ReplySink: Send + Sync {
    /// Takes the reply to a call; an error of the server, or the loss of the connection.
    fn reply(self: Arc<Self>, call: CallId, reply: RedisResult<Value>);
}
