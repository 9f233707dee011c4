//! A queued request, and the channel for its reply.

use tokio::sync::oneshot;

use crate::store::redis::deadline::RequestDeadline;
use crate::store::redis::error::CallError;
use crate::store::redis::key::StateKey;
use crate::store::redis::protocol::{Reply, Request};

/// The channel for a reply.
pub(super) type ReplySender = oneshot::Sender<Result<Reply, CallError>>;

/// A queued request.
pub(super) struct QueuedRequest {
    pub(super) request: Request,
    /// The slot of its keys in a cluster.
    pub(super) slot: u16,
    pub(super) deadline: RequestDeadline,
    pub(super) reply: ReplySender,
}

impl QueuedRequest {
    /// Part of the maximum weight of a batch that the request takes.
    pub(super) fn weight(&self) -> usize {
        self.request.weight()
    }
}

/// Sends a request its reply, unless the request's future was dropped.
pub(super) fn send_reply(sender: ReplySender, reply: Result<Reply, CallError>) {
    let _ = sender.send(reply);
}

/// The first key of a request, which decides the node: all keys of a request are on one.
pub(super) fn first_key(request: &Request) -> Option<&StateKey> {
    request.limits.first().map(|limit| &limit.key)
}
