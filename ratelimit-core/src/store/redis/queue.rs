//! Queues and batches: requests that come while a call is in flight go together into the next call.
//!
//! A request never waits for a batch to fill. With no call in flight it is sent at once, by itself. Under load one call
//! decides many requests, in the order in which they were made and with one reading of the clock. Single calls would decide
//! the same: the script decides each request after charging those before it.
//!
//! Under load two calls alternate: the server decides one while this process handles the replies of the other. So another
//! call is sent while one is in flight if as many requests are queued as are in flight, or a whole batch, and it takes at most
//! half of them all. It is also sent if the call takes longer than the [send interval](MIN_SEND_INTERVAL).
//!
//! A cluster has one queue per node. A batch has one call per caller, because a call for several callers might find some of
//! their keys here and some there while a slot moves. The calls go to the node in one pipeline.

mod dispatch;
mod in_flight;
mod inbox;
mod request;
mod round_trip;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

use self::dispatch::dispatch;
use self::in_flight::InFlight;
use self::inbox::{Inbox, InboxReader};
use self::request::{QueuedRequest, ReplySender, first_key, send_reply, weight_of};
use self::round_trip::{MIN_SEND_INTERVAL, RoundTripEstimate};
use super::deadline::RequestDeadline;
use super::error::CallError;
use super::lease::{LeaseTarget, Leases};
use super::link::Link;
use super::protocol::{Encoder, Reply, Request};
use super::topology::{NodeId, SLOT_RANGES, range_of_slot, slot_of_tag};
use crate::error::StoreError;

/// Maximum weight of one call: that of 128 limits, or of 16 logs. Such a call takes the server one or two tenths of a
/// millisecond, with logs one millisecond at most, so that it does not delay other users of the server. A single group
/// that weighs more goes in a call of its own.
const MAX_BATCH_WEIGHT: usize = 128;

/// Maximum number of calls in flight of one queue: enough for 64 * 128 limits. Further requests stay queued until their
/// deadline.
const MAX_IN_FLIGHT: usize = 64;

/// The queues of a store. Their length is bounded by time: no request waits longer than its deadline.
pub(super) struct Queues {
    inboxes: Box<[Arc<Inbox>]>,
    link: Arc<Link>,
}

impl Queues {
    /// Starts the queues, which run on `runtime`.
    pub(super) fn start(
        link: &Arc<Link>,
        runtime: &Handle,
        encoder: &Arc<Encoder>,
        leases: &Arc<Leases>,
    ) -> Self {
        let size = if link.is_cluster() { SLOT_RANGES } else { 1 };
        let inboxes = (0..size).map(|_| {
            let inbox = Arc::new(Inbox::default());
            let context = Context {
                link: Arc::clone(link),
                encoder: Arc::clone(encoder),
                leases: Arc::clone(leases),
                round_trip: Arc::default(),
            };
            runtime.spawn(run_queue(context, InboxReader::new(&inbox)));
            inbox
        });
        Self { inboxes: inboxes.collect(), link: Arc::clone(link) }
    }

    /// Queues a request whose keys are on one node; the result waits for the reply.
    pub(super) fn submit(
        &self,
        request: Request,
        leases: Box<[LeaseTarget]>,
        deadline: RequestDeadline,
    ) -> PendingReply {
        let (reply, receiver) = oneshot::channel();
        self.push(request, leases, deadline, Some(reply));
        PendingReply(receiver)
    }

    /// Queues a lease that is fetched in the background.
    pub(super) fn prefetch(&self, request: Request, target: LeaseTarget, deadline: RequestDeadline) {
        self.push(request, Box::new([target]), deadline, None);
    }

    fn push(
        &self,
        request: Request,
        leases: Box<[LeaseTarget]>,
        deadline: RequestDeadline,
        reply: Option<ReplySender>,
    ) {
        let slot = match (&self.link.nodes, first_key(&request)) {
            (Some(_), Some(key)) => slot_of_tag(&key.hash_tag()),
            _ => 0,
        };
        // Fails here and not on the thread, which may be busy with connecting: TLS takes computing time.
        if let Some(error) = self.link.fast_fail(range_of_slot(slot)) {
            send_reply(reply, Err(error));
        } else {
            let queued = QueuedRequest { request, slot, deadline, leases, reply };
            self.inboxes[self.queue_of(slot)].push(queued);
        }
    }

    /// The queue of a slot: in a cluster that of the slot's node, or of its range while the node is not known.
    fn queue_of(&self, slot: u16) -> usize {
        let Some(nodes) = &self.link.nodes else { return 0 };
        nodes.owner(slot).map_or_else(|| range_of_slot(slot), |node| node.index() % SLOT_RANGES)
    }
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
    round_trip: Arc<RoundTripEstimate>,
}

/// Runs one queue until the connection's thread ends.
async fn run_queue(context: Context, inbox: InboxReader) {
    let Context { link, round_trip, .. } = &context;
    let mut calls = InFlight::default();
    let mut waiting: Vec<QueuedRequest> = Vec::with_capacity(MAX_BATCH_WEIGHT);
    let mut sent = Instant::now();
    let mut last_size = 0;
    loop {
        let left_over = weight_of(&waiting);
        calls.reap();
        while !calls.is_empty() {
            let enough = calls.weight_for_another();
            if left_over >= enough {
                break;
            }
            let is_full = inbox.holds(enough - left_over);
            let call_ended = calls.end_of_one_before(is_full);
            if timeout_at(sent + round_trip.send_interval(), call_ended).await != Ok(true) {
                break;
            }
        }
        // A call ends at the latest deadline of its requests; that of a queued request may be earlier.
        while calls.len() >= MAX_IN_FLIGHT {
            let _ = timeout_at(Instant::now() + MIN_SEND_INTERVAL, calls.end_of_one()).await;
            inbox.take(&mut waiting, usize::MAX);
            let now = Instant::now();
            for request in waiting.extract_if(.., |request| request.deadline.instant() <= now) {
                send_reply(request.reply, Err(request.deadline.timeout_error()));
            }
        }
        // Whether the last call was for one request, and ended before another was queued.
        let was_alone = last_size == 1 && calls.is_empty() && waiting.is_empty() && inbox.is_empty();
        if waiting.is_empty() {
            inbox.holds(1).await;
        }
        inbox.take(&mut waiting, MAX_BATCH_WEIGHT);
        // In the order in which the requests were made, whichever thread queued first.
        waiting.sort_by_key(|request| request.deadline.since);
        let queued = weight_of(&waiting) + inbox.weight();
        let batch = take_batch(&mut waiting, calls.weight_of_next(queued));
        last_size = batch.len();
        if was_alone && batch.len() == 1 && waiting.is_empty() {
            let (node, weight) = (node_of(&batch[0], link), weight_of(&batch));
            let mut call = Box::pin(dispatch(context.clone(), node, batch));
            sent = Instant::now();
            // After a lone call, another one is likely. It needs neither a task nor the interval: it waits for its reply,
            // or for other requests. Under load that would wake this task for each batch, so it is not done there.
            let mut others = pin!(inbox.holds(1));
            let is_done = poll_fn(|task| {
                // A panic ends this call, not the queue.
                let polled = catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(task)));
                if !matches!(polled, Ok(Poll::Pending)) {
                    return Poll::Ready(true);
                }
                others.as_mut().poll(task).map(|()| false)
            });
            if !is_done.await {
                calls.spawn(call, weight);
            }
            continue;
        }
        for (node, requests) in split_by_node(batch, link) {
            let weight = weight_of(&requests);
            calls.spawn(dispatch(context.clone(), node, requests), weight);
        }
        sent = Instant::now();
        // Sends the calls before the next batch is put together.
        yield_now().await;
    }
}

/// Takes from the front the requests that weigh no more than `most` together, at least one.
fn take_batch(waiting: &mut Vec<QueuedRequest>, most: usize) -> Vec<QueuedRequest> {
    let mut weight = 0;
    let fitting = waiting.iter().position(|request| {
        weight += request.weight();
        weight > most
    });
    match fitting {
        None => mem::replace(waiting, Vec::with_capacity(MAX_BATCH_WEIGHT)),
        Some(size) => waiting.drain(..size.max(1)).collect(),
    }
}

/// Splits a batch by the node that decides: one part on a single server. Keeps the order.
fn split_by_node(batch: Vec<QueuedRequest>, link: &Link) -> Vec<(Option<NodeId>, Vec<QueuedRequest>)> {
    if !link.is_cluster() {
        return if batch.is_empty() { Vec::new() } else { vec![(None, batch)] };
    }
    let mut parts: Vec<(Option<NodeId>, Vec<QueuedRequest>)> = Vec::with_capacity(1);
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
