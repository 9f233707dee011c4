//! Where the reply to a call goes, whichever way it was sent.

use std::panic::{AssertUnwindSafe, catch_unwind};
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
    /// Takes the reply to a call; an error of the server, or the loss of the connection. Returns false if it is not that of the call:
    /// then the replies behind it are not those of their calls either.
    fn reply(self: Arc<Self>, call: CallId, reply: RedisResult<Value>) -> bool;
}

/// Hands a reply over. Returns false if it is not that of the call. A panic of the application's metrics recorder or tracing subscriber ends one call, not the thread or task.
pub(super) fn hand_over(sink: Arc<dyn ReplySink>, call: CallId, reply: RedisResult<Value>) -> bool {
    catch_unwind(AssertUnwindSafe(|| sink.reply(call, reply))).unwrap_or(true)
}
