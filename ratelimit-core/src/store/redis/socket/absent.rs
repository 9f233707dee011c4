//! Without plain sockets: the same names, and never a socket. Calls go over the client crate's connection.

use std::sync::Arc;

use redis::RedisError;

use super::reply_sink::{CallId, ReplySink};
use crate::absent::absent;

absent! {
    pub(super) enum Socket {
        pub(super) fn loss(&self) -> Option<&RedisError>;
        pub(super) fn give_up(&self);
        pub(super) fn send_calls(&self, _: &[u8], _: impl IntoIterator<Item = CallId>, _: &Arc<dyn ReplySink>) -> bool;
    }
}
