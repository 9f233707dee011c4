//! Requests and commands that are queued, with the channel for the reply; and grouping of requests.

use smallvec::SmallVec;
use tokio::sync::oneshot;

use crate::store::redis::attachments::Attachment;
use crate::store::redis::command::GuardedCommand;
use crate::store::redis::error::CallError;
use crate::store::redis::key::StateKey;
use crate::store::redis::protocol::{Reply, Request};

/// The end of a request, or without a reply the end of a command.
pub(in crate::store::redis) type Replied = Result<Option<Reply>, CallError>;

/// The channel for a reply.
pub(in crate::store::redis) type ReplySender = oneshot::Sender<Replied>;

/// A queued request.
pub(in crate::store::redis) struct QueuedRequest {
    pub(in crate::store::redis) request: Request,
    /// The hash slot of its keys in a cluster.
    pub(in crate::store::redis) hash_slot: u16,
    /// When it was made.
    pub(in crate::store::redis) since: u64,
    pub(in crate::store::redis) attachment: Attachment,
    /// `None` if only the attachment learns the reply: for a lease that is fetched in the background, and for
    /// a message of slots.
    pub(in crate::store::redis) reply: Option<ReplySender>,
}

/// A command for keys of a hash slot.
pub(in crate::store::redis) struct QueuedCommand {
    pub(in crate::store::redis) command: GuardedCommand,
    pub(in crate::store::redis) hash_slot: u16,
    /// `None` if no task waits for its end.
    pub(in crate::store::redis) reply: Option<ReplySender>,
}

pub(super) type Requests = Vec<QueuedRequest>;

/// A request or a command.
pub(in crate::store::redis) enum Queued {
    Request(QueuedRequest),
    /// Goes before the requests that are queued.
    Command(QueuedCommand),
}

impl Queued {
    pub(in crate::store::redis) const fn hash_slot(&self) -> u16 {
        match self {
            Self::Request(request) => request.hash_slot,
            Self::Command(command) => command.hash_slot,
        }
    }

    pub(in crate::store::redis) fn fail(self, error: CallError) {
        let reply = match self {
            Self::Request(request) => request.reply,
            Self::Command(command) => command.reply,
        };
        send_reply(reply, Err(error));
    }
}

impl QueuedRequest {
    /// Whether the request's future was dropped.
    pub(super) fn is_abandoned(&self) -> bool {
        self.reply.as_ref().is_some_and(ReplySender::is_closed)
    }
}

/// Sends a request its reply, unless its future was dropped or no task waits for it.
pub(in crate::store::redis) fn send_reply(sender: Option<ReplySender>, reply: Replied) {
    if let Some(sender) = sender {
        let _ = sender.send(reply);
    }
}

/// The first key of a request, which decides the node: all keys of a request are on one node.
pub(in crate::store::redis) fn first_key(request: &Request) -> Option<&StateKey> {
    request.limits.first().map(|limit| &limit.key)
}

/// Groups the requests by a key, and keeps the order of requests with the same key.
pub(super) fn grouped<K: PartialEq>(
    requests: Requests,
    key: impl Fn(&QueuedRequest) -> K,
) -> SmallVec<[(K, Requests); 1]> {
    let mut groups: SmallVec<[(K, Requests); 1]> = SmallVec::new();
    if let Some(first) = requests.first().map(&key)
        && requests.iter().all(|request| key(request) == first)
    {
        groups.push((first, requests));
        return groups;
    }
    // A flush takes so few requests that a search is as fast as a table.
    for request in requests {
        let key = key(&request);
        match groups.iter_mut().find(|group| group.0 == key) {
            Some((_, requests)) => requests.push(request),
            None => groups.push((key, vec![request])),
        }
    }
    groups
}

#[cfg(test)]
pub(super) mod tests {
    //! Requests for the tests of a queue.

    use std::time::Duration;

    use super::*;
    use crate::algorithm::Operation;
    use crate::check::Check;
    use crate::policy::{Algorithm, Policy};
    use crate::store::deadline::now;
    use crate::store::redis::key::KeyFormat;
    use crate::store::redis::protocol::LimitArg;

    type Receiver = oneshot::Receiver<Replied>;

    /// A check under a limit of this algorithm, and the channel for its reply.
    pub(in crate::store::redis::queue) fn check_under(algorithm: Algorithm) -> (QueuedRequest, Receiver) {
        check_of("alice", algorithm)
    }

    /// A check of this caller, and the channel for its reply.
    pub(in crate::store::redis::queue) fn check_of(
        caller: &str,
        algorithm: Algorithm,
    ) -> (QueuedRequest, Receiver) {
        let policy =
            Policy::builder("user-api").max(10).window(Duration::from_secs(60)).algorithm(algorithm).build();
        let check = Check::new(&policy, caller);
        let limit = LimitArg::new(KeyFormat::new("rl", "").unwrap().key(&check), &check);
        let request = Request { operation: Operation::Check, limits: [limit].into_iter().collect() };
        let (reply, receiver) = oneshot::channel();
        let (since, attachment) = (now(), Attachment::None);
        let request = QueuedRequest { request, hash_slot: 0, since, attachment, reply: Some(reply) };
        (request, receiver)
    }

    pub(in crate::store::redis) fn check() -> (QueuedRequest, Receiver) {
        check_under(Algorithm::SlidingWindowCounter)
    }

    pub(in crate::store::redis::queue) fn checks(count: usize) -> (Requests, Vec<Receiver>) {
        (0..count).map(|_| check()).unzip()
    }
}
