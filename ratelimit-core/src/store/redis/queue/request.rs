//! A queued request, and the channel for its reply.

use tokio::sync::oneshot;

use crate::store::Deadline;
use crate::store::redis::error::CallError;
use crate::store::redis::key::StateKey;
use crate::store::redis::lease::LeaseTarget;
use crate::store::redis::protocol::{LimitArg, Reply, Request};

/// The channel for a reply.
pub(super) type ReplySender = oneshot::Sender<Result<Reply, CallError>>;

/// A queued request.
pub(super) struct QueuedRequest {
    pub(super) request: Request,
    /// The slot of its keys in a cluster.
    pub(super) slot: u16,
    pub(super) deadline: Deadline,
    /// Limits whose answers are of use for leases; most requests have none.
    pub(super) leases: Box<[LeaseTarget]>,
    /// `None` for a lease that is fetched in the background, whose limit is not judged, only leased; and for a message that only
    /// tells of slots.
    pub(super) reply: Option<ReplySender>,
}

impl QueuedRequest {
    /// Part of the maximum weight of a batch that the request takes.
    pub(super) fn weight(&self) -> usize {
        self.request.weight()
    }

    /// The limit of slots of a message that only tells.
    pub(super) fn told_limit(&self) -> Option<&LimitArg> {
        let limit = self.request.limits.first().filter(|_| self.reply.is_none())?;
        limit.policy.algorithm().holds_slots().then_some(limit)
    }

    /// Whether the request's future was dropped.
    pub(super) fn is_abandoned(&self) -> bool {
        self.reply.as_ref().is_some_and(ReplySender::is_closed)
    }
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

#[cfg(test)]
pub(super) mod tests {
    //! Requests for the tests of a queue.

    use std::time::Duration;

    use super::*;
    use crate::algorithm::Operation;
    use crate::check::Check;
    use crate::policy::{Algorithm, Policy};
    use crate::store::redis::key::KeyFormat;

    type Receiver = oneshot::Receiver<Result<Reply, CallError>>;

    /// A check under a limit of this algorithm, and the channel for its reply.
    pub(in crate::store::redis::queue) fn check_under(algorithm: Algorithm) -> (QueuedRequest, Receiver) {
        let policy =
            Policy::builder("user-api").max(10).window(Duration::from_secs(60)).algorithm(algorithm).build();
        let check = Check::new(&policy, "alice");
        let limit = LimitArg::new(KeyFormat::new("rl", "").unwrap().key(&check), &check);
        let request = Request { operation: Operation::Check, limits: [limit].into_iter().collect() };
        let (reply, receiver) = oneshot::channel();
        let deadline = Deadline::after(Duration::from_secs(60));
        (QueuedRequest { request, slot: 0, deadline, leases: Box::default(), reply: Some(reply) }, receiver)
    }

    pub(in crate::store::redis::queue) fn check() -> (QueuedRequest, Receiver) {
        check_under(Algorithm::SlidingWindowCounter)
    }

    pub(in crate::store::redis::queue) fn checks(count: usize) -> (Vec<QueuedRequest>, Vec<Receiver>) {
        (0..count).map(|_| check()).unzip()
    }
}
