//! A queued request, and the channel for its reply.

use tokio::sync::oneshot;

use crate::store::redis::deadline::RequestDeadline;
use crate::store::redis::error::CallError;
use crate::store::redis::key::StateKey;
use crate::store::redis::lease::LeaseTarget;
use crate::store::redis::protocol::{Reply, Request};

/// The channel for a reply.
pub(super) type ReplySender = oneshot::Sender<Result<Reply, CallError>>;

/// A queued request.
pub(super) struct QueuedRequest {
    pub(super) request: Request,
    /// The slot of its keys in a cluster.
    pub(super) slot: u16,
    pub(super) deadline: RequestDeadline,
    /// Limits whose answers are of use for leases; most requests have none.
    pub(super) leases: Box<[LeaseTarget]>,
    /// `None` for a lease that is fetched in the background: its limit is not judged, only leased.
    pub(super) reply: Option<ReplySender>,
}

impl QueuedRequest {
    /// Part of the maximum weight of a batch that the request takes, also if it has no limits.
    pub(super) fn weight(&self) -> usize {
        self.request.weight().max(1)
    }

    /// Whether the request's future was dropped.
    pub(super) fn is_abandoned(&self) -> bool {
        self.reply.as_ref().is_some_and(ReplySender::is_closed)
    }
}

/// Weight of these requests together.
pub(super) fn weight_of(requests: &[QueuedRequest]) -> usize {
    requests.iter().map(QueuedRequest::weight).sum()
}

/// Sends a request its reply, unless its future was dropped, or there is none.
pub(super) fn send_reply(sender: Option<ReplySender>, reply: Result<Reply, CallError>) {
    if let Some(sender) = sender {
        let _ = sender.send(reply);
    }
}

/// The first key of a request, which decides the node: all keys of a request are on one.
pub(super) fn first_key(request: &Request) -> Option<&StateKey> {
    request.limits.first().map(|limit| &limit.key)
}
