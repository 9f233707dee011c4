//! Queued requests: the channel for the reply, which of them are sent, and whose they are.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use tokio::sync::oneshot;

use crate::policy::KnownCalendar;
use crate::store::Deadline;
use crate::store::redis::command::GuardedCommand;
use crate::store::redis::error::CallError;
use crate::store::redis::key::StateKey;
use crate::store::redis::protocol::{Reply, Request};
use crate::store::redis::riders::Rider;

/// The end of a request; without a reply that of a command.
pub(in crate::store::redis) type Replied = Result<Option<Reply>, CallError>;

/// The channel for a reply.
pub(in crate::store::redis) type ReplySender = oneshot::Sender<Replied>;

/// A queued request.
pub(in crate::store::redis) struct QueuedRequest {
    pub(in crate::store::redis) request: Request,
    /// The hash slot of its keys in a cluster.
    pub(in crate::store::redis) hash_slot: u16,
    pub(in crate::store::redis) deadline: Deadline,
    pub(in crate::store::redis) rider: Rider,
    /// `None` if only the rider learns the reply: for a lease that is fetched in the background, and for a
    /// message of slots.
    pub(in crate::store::redis) reply: Option<ReplySender>,
}

/// A command for keys of a hash slot, and what waits for its end.
pub(in crate::store::redis) struct QueuedCommand {
    pub(in crate::store::redis) command: GuardedCommand,
    pub(in crate::store::redis) hash_slot: u16,
    pub(in crate::store::redis) waiter: Option<(Deadline, ReplySender)>,
}

/// What is queued.
pub(in crate::store::redis) enum Queued {
    Request(QueuedRequest),
    /// It goes before the requests that are queued.
    Command(QueuedCommand),
}

impl Queued {
    pub(in crate::store::redis) const fn hash_slot(&self) -> u16 {
        match self {
            Self::Request(request) => request.hash_slot,
            Self::Command(command) => command.hash_slot,
        }
    }

    /// Whether it is a command, or about something that this process holds: these are sent in their order.
    pub(in crate::store::redis) const fn is_ordered(&self) -> bool {
        !matches!(self, Self::Request(QueuedRequest { rider: Rider::None, .. }))
    }

    /// `None` for a command for whose end nothing waits.
    pub(in crate::store::redis) fn deadline_mut(&mut self) -> Option<&mut Deadline> {
        match self {
            Self::Request(request) => Some(&mut request.deadline),
            Self::Command(command) => command.deadline_mut(),
        }
    }

    pub(in crate::store::redis) fn fail(self, error: CallError) {
        match self {
            Self::Request(QueuedRequest { reply, .. }) => send_reply(reply, Err(error)),
            Self::Command(QueuedCommand { waiter, .. }) => {
                send_reply(waiter.map(|(_, reply)| reply), Err(error));
            }
        }
    }
}

impl QueuedCommand {
    /// `None` if nothing waits for its end.
    pub(super) fn deadline_mut(&mut self) -> Option<&mut Deadline> {
        self.waiter.as_mut().map(|(deadline, _)| deadline)
    }
}

impl QueuedRequest {
    /// Part of the maximum weight of a batch that the request takes.
    pub(super) fn weight(&self) -> usize {
        self.request.weight()
    }

    /// Whether the request's future was dropped.
    pub(super) fn is_abandoned(&self) -> bool {
        self.reply.as_ref().is_some_and(ReplySender::is_closed)
    }
}

/// Sends a request its reply, unless its future was dropped, or there is none.
pub(in crate::store::redis) fn send_reply(sender: Option<ReplySender>, reply: Replied) {
    if let Some(sender) = sender {
        let _ = sender.send(reply);
    }
}

/// The first key of a request, which decides the node: all keys of a request are on one.
pub(in crate::store::redis) fn first_key(request: &Request) -> Option<&StateKey> {
    request.limits.first().map(|limit| &limit.key)
}

/// Drops the requests that are not sent at `start`, so that they are not charged for nothing.
pub(super) fn drop_unwanted(requests: &mut Vec<QueuedRequest>, start: Instant, expected: Duration) {
    // The reply would come too late. A request with more than half of its time left is sent in any case:
    // otherwise one slow reply would hold back all shorter deadlines.
    let is_late = |deadline: Deadline| deadline.instant() <= start + expected.min(deadline.granted() / 2);
    for request in requests.extract_if(.., |request| is_late(request.deadline)) {
        send_reply(request.reply, Err(request.deadline.timeout_error()));
    }
    requests.retain(|request| !request.is_abandoned());
}

/// The requests of each caller, in their order.
pub(super) fn by_caller(requests: Vec<QueuedRequest>) -> impl Iterator<Item = Vec<QueuedRequest>> {
    let mut callers: BTreeMap<[u8; 16], Vec<QueuedRequest>> = BTreeMap::new();
    for request in requests {
        let caller = first_key(&request.request).map(|key| *key.caller()).unwrap_or_default();
        callers.entry(caller).or_default().push(request);
    }
    callers.into_values()
}

/// The requests in their order, in parts of one call each: a call decides about one window of a count.
pub(super) fn by_call(mut requests: Vec<QueuedRequest>) -> impl Iterator<Item = Vec<QueuedRequest>> {
    let mut starts = SmallVec::<[usize; 1]>::new();
    let mut known: BTreeMap<u64, &KnownCalendar> = BTreeMap::new();
    for (index, queued) in requests.iter().enumerate() {
        let calendars = || queued.request.calendars();
        if calendars().any(|(key, calendar)| known.get(&key).is_some_and(|of| *of != calendar)) {
            known.clear();
            starts.push(index);
        }
        known.extend(calendars());
    }
    let mut parts: SmallVec<[Vec<QueuedRequest>; 1]> = SmallVec::new();
    parts.extend(starts.into_iter().rev().map(|start| requests.split_off(start)));
    parts.push(requests);
    parts.into_iter().rev()
}

#[cfg(test)]
pub(super) mod tests {
    //! Requests for the tests of a queue.

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

    /// The same for this caller.
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
        let deadline = Deadline::after(Duration::from_secs(60));
        let rider = Rider::None;
        (QueuedRequest { request, hash_slot: 0, deadline, rider, reply: Some(reply) }, receiver)
    }

    pub(in crate::store::redis) fn check() -> (QueuedRequest, Receiver) {
        check_under(Algorithm::SlidingWindowCounter)
    }

    pub(in crate::store::redis::queue) fn checks(count: usize) -> (Vec<QueuedRequest>, Vec<Receiver>) {
        (0..count).map(|_| check()).unzip()
    }

    #[tokio::test]
    async fn a_request_whose_future_was_dropped_is_not_sent() {
        let (mut requests, mut replies) = checks(3);
        let since: Vec<Instant> = requests.iter().map(|request| request.deadline.since).collect();
        drop(replies.remove(1));
        drop_unwanted(&mut requests, now(), Duration::ZERO);
        let sent: Vec<Instant> = requests.iter().map(|request| request.deadline.since).collect();
        assert_eq!(sent, [since[0], since[2]]);
    }

    #[tokio::test]
    async fn a_request_whose_reply_would_come_too_late_is_not_sent() {
        // Seconds since the request was made, of the 60 that it has, and seconds until the reply is expected.
        for (elapsed, expected, is_sent) in [
            (49, 10, true),
            (50, 10, false),
            // More than half of the time is left, and half of it.
            (29, 3_600, true),
            (30, 3_600, false),
        ] {
            let (mut requests, mut replies) = checks(1);
            let start = requests[0].deadline.since + Duration::from_secs(elapsed);
            drop_unwanted(&mut requests, start, Duration::from_secs(expected));
            assert_eq!(requests.len(), usize::from(is_sent), "{elapsed} s, {expected} s");
            let is_answered = matches!(replies[0].try_recv(), Ok(Err(CallError::Timeout(_))));
            assert_eq!(is_answered, !is_sent, "{elapsed} s, {expected} s");
        }
    }
}
