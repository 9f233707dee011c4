//! Queues and batches: requests that come while as many calls are in flight as go at once go together into the next calls.
//!
//! One call decides many requests, in the order in which they were made and with one reading of the clock. Single calls would
//! decide the same: the script decides each request after charging those before it. (A call whose script the server does not
//! know is sent again, behind the calls that were sent meanwhile.) [`pacing`] decides when a batch is sent.
//!
//! A cluster has one queue per node. A batch has one call per caller, because a call for several callers might find some of
//! their keys here and some there while a slot moves. The calls go to the node in one pipeline.

mod dispatch;
mod distance;
mod in_flight;
mod inbox;
mod lone;
mod pacing;
mod request;
mod round_trip;

use std::sync::Arc;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use self::dispatch::dispatch;
use self::inbox::{Inbox, InboxReader, inbox};
use self::request::{QueuedRequest, ReplySender, first_key, send_reply};
use self::round_trip::RoundTripEstimate;
use super::error::CallError;
use super::lease::{LeaseTarget, Leases};
use super::link::Link;
use super::protocol::{Encoder, LimitArg, Reply, Request};
use super::slots::SlotTable;
use super::topology::{NodeId, SLOT_RANGES, range_of_slot, slot_of_tag};
use crate::algorithm::Operation;
use crate::error::StoreError;
use crate::store::Deadline;

/// Deadline of a message that only tells of slots: it is not dropped when the queue is long.
const NEVER: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The queues of a store. Their length is bounded by time: no request waits longer than its deadline.
pub(super) struct Queues {
    inboxes: Box<[Inbox]>,
    link: Arc<Link>,
}

impl Queues {
    /// Starts the queues, which run on `runtime`.
    pub(super) fn start(
        link: &Arc<Link>,
        runtime: &Handle,
        encoder: &Arc<Encoder>,
        leases: &Arc<Leases>,
        slots: &Arc<SlotTable>,
    ) -> Self {
        let size = if link.is_cluster() { SLOT_RANGES } else { 1 };
        let inboxes = (0..size).map(|_| {
            let (inbox, requests) = inbox();
            let context = Context {
                link: Arc::clone(link),
                encoder: Arc::clone(encoder),
                leases: Arc::clone(leases),
                slots: Arc::clone(slots),
                round_trip: Arc::default(),
            };
            runtime.spawn(run_queue(context, requests));
            inbox
        });
        Self { inboxes: inboxes.collect(), link: Arc::clone(link) }
    }

    /// Queues a request whose keys are on one node; the result waits for the reply.
    pub(super) fn submit(
        &self,
        request: Request,
        leases: Box<[LeaseTarget]>,
        deadline: Deadline,
    ) -> PendingReply {
        let (reply, receiver) = oneshot::channel();
        let _ = self.push(request, leases, deadline, Some(reply));
        PendingReply(receiver)
    }

    /// Queues a message that only tells of slots. Returns false if there is no connection.
    pub(super) fn tell(&self, limit: LimitArg) -> bool {
        let request = Request { operation: Operation::Check, limits: smallvec![limit] };
        self.push(request, Box::default(), Deadline::after(NEVER), None)
    }

    /// Queues a lease that is fetched in the background.
    pub(super) fn prefetch(&self, request: Request, target: LeaseTarget, deadline: Deadline) {
        let _ = self.push(request, Box::new([target]), deadline, None);
    }

    fn push(
        &self,
        request: Request,
        leases: Box<[LeaseTarget]>,
        deadline: Deadline,
        reply: Option<ReplySender>,
    ) -> bool {
        let slot = match (&self.link.nodes, first_key(&request)) {
            (Some(_), Some(key)) => slot_of_tag(&key.hash_tag()),
            _ => 0,
        };
        // Fails here and not on the thread, which may be busy with connecting: TLS takes computing time.
        if let Some(error) = self.link.fast_fail(range_of_slot(slot)) {
            send_reply(reply, Err(error));
            false
        } else {
            let queued = QueuedRequest { request, slot, deadline, leases, reply };
            let nodes = self.link.nodes.as_ref();
            let queue = nodes.map_or(0, |nodes| queue_of(slot, nodes.owner(slot).map(NodeId::index)));
            self.inboxes[queue].push(queued);
            true
        }
    }
}

/// The queue of a slot in a cluster: that of the slot's node, or of its range while the node is not known.
fn queue_of(slot: u16, node: Option<usize>) -> usize {
    node.map_or_else(|| range_of_slot(slot), |node| node % SLOT_RANGES)
}

/// A reply that has not arrived yet.
pub(super) struct PendingReply(oneshot::Receiver<Result<Reply, CallError>>);

impl PendingReply {
    pub(super) async fn reply(self) -> Result<Reply, StoreError> {
        self.0.await.unwrap_or(Err(CallError::Unavailable)).map_err(StoreError::from)
    }
}

/// What the calls of one queue share.
#[derive(Clone)]
struct Context {
    link: Arc<Link>,
    encoder: Arc<Encoder>,
    leases: Arc<Leases>,
    slots: Arc<SlotTable>,
    round_trip: Arc<RoundTripEstimate>,
}

/// Runs one queue until the connection's thread ends.
async fn run_queue(context: Context, requests: InboxReader) {
    let interval = || context.round_trip.send_interval();
    let at_once = || context.round_trip.calls_at_once();
    let send = |batch| {
        let parts = split_by_node(batch, &context.link).into_iter();
        parts.map(|(node, requests)| (requests.len(), dispatch(context.clone(), node, requests)))
    };
    pacing::run(requests, interval, at_once, send).await;
}

/// Splits a batch by the node that decides: one part on a single server. Keeps the order.
fn split_by_node(
    batch: Vec<QueuedRequest>,
    link: &Link,
) -> SmallVec<[(Option<NodeId>, Vec<QueuedRequest>); 1]> {
    if !link.is_cluster() {
        return smallvec![(None, batch)];
    }
    let mut parts = SmallVec::<[(Option<NodeId>, Vec<QueuedRequest>); 1]>::new();
    for request in batch {
        let node = node_of(&request, link);
        match parts.iter_mut().find(|part| part.0 == node) {
            Some((_, requests)) => requests.push(request),
            None => parts.push((node, vec![request])),
        }
    }
    parts
}

/// The node of a request's keys in a cluster, if it is known.
fn node_of(request: &QueuedRequest, link: &Link) -> Option<NodeId> {
    link.nodes.as_ref()?.owner(request.slot)
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use tokio::time::Instant;

    use super::request::tests::{check, checks};
    use super::*;

    #[test]
    fn slots_of_one_node_share_a_queue() {
        let (one, other) = (0, 16_383);
        assert_ne!(range_of_slot(one), range_of_slot(other));
        assert_eq!(queue_of(one, Some(2)), queue_of(other, Some(2)));
        assert_ne!(queue_of(one, Some(2)), queue_of(one, Some(3)));
        assert_ne!(queue_of(one, None), queue_of(other, None), "the node is not known");
        assert!(queue_of(one, Some(SLOT_RANGES)) < SLOT_RANGES);
    }

    /// Runs a queue whose calls never end for one second. Returns when the requests of each call were made.
    async fn calls_of(requests: impl IntoIterator<Item = QueuedRequest>) -> Vec<Vec<Instant>> {
        let (inbox, reader) = inbox();
        requests.into_iter().for_each(|request| inbox.push(request));
        let calls = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&calls);
        let send = move |batch: Vec<QueuedRequest>| {
            record.lock().push(batch.iter().map(|request| request.deadline.since).collect());
            [(batch.len(), std::future::pending())]
        };
        let queue = tokio::spawn(pacing::run(reader, || Duration::from_millis(1), || 1, send));
        tokio::time::sleep(Duration::from_secs(1)).await;
        queue.abort();
        std::mem::take(&mut calls.lock())
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_sent_in_the_order_in_which_they_were_made() {
        let mut made = Vec::new();
        for _ in 0..3 {
            made.push(check());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let (requests, _replies): (Vec<_>, Vec<_>) = made.into_iter().unzip();
        let order: Vec<_> = requests.iter().map(|request| request.deadline.since).collect();
        // As if another thread had queued each before the one that was made earlier.
        assert_eq!(calls_of(requests.into_iter().rev()).await.concat(), order);
    }

    #[tokio::test(start_paused = true)]
    async fn at_most_64_calls_are_in_flight() {
        let (requests, _replies) = checks(10_000);
        let calls = calls_of(requests).await;
        assert_eq!((calls.len(), calls.concat().len()), (64, 64 * 128), "the rest waits");
    }
}
