//! Queues and batches: requests that come while a call is in flight go together into the next call.
//!
//! A request never waits for a batch to fill. With no call in flight it is sent at once, by itself. Under load one call
//! decides many requests, in the order in which they were made and with one reading of the clock. Single calls would decide
//! the same: the script decides each request after charging those before it. Another call is sent while one is in
//! flight if half a batch is queued, or if the call takes longer than the [send interval](MIN_SEND_INTERVAL).
//!
//! A cluster has one queue per node. A batch has one call per caller, because a call for several callers might find some of
//! their keys here and some there while a slot moves. The calls go to the node in one pipeline.

mod dispatch;
mod request;
mod round_trip;

use std::future::poll_fn;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, timeout_at};

use self::dispatch::dispatch;
use self::request::{QueuedRequest, ReplySender, first_key, send_reply};
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

/// If at least this many limits are queued, the next call is sent immediately, so that the server never idles. With fewer,
/// a second call would only split the first.
const EAGER_SEND_THRESHOLD: usize = MAX_BATCH_WEIGHT / 2;

/// Maximum number of calls in flight of one queue: enough for 64 * 128 limits. Further requests stay queued until their
/// deadline.
const MAX_IN_FLIGHT: usize = 64;

/// The queues of a store. Their length is bounded by time: no request waits longer than its deadline.
pub(super) struct Queues {
    senders: Box<[mpsc::UnboundedSender<QueuedRequest>]>,
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
        let senders = (0..size).map(|_| {
            let (sender, receiver) = mpsc::unbounded_channel();
            let context = Context {
                link: Arc::clone(link),
                encoder: Arc::clone(encoder),
                leases: Arc::clone(leases),
                round_trip: Arc::default(),
            };
            runtime.spawn(run_queue(context, receiver));
            sender
        });
        Self { senders: senders.collect(), link: Arc::clone(link) }
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
            // Fails when the thread has ended; then the reply's channel is closed, too.
            let queued = QueuedRequest { request, slot, deadline, leases, reply };
            let _ = self.senders[self.queue_of(slot)].send(queued);
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

/// Runs one queue until its sender is dropped.
async fn run_queue(context: Context, mut queue: mpsc::UnboundedReceiver<QueuedRequest>) {
    let Context { link, round_trip, .. } = &context;
    let mut calls = JoinSet::new();
    let mut waiting: Vec<QueuedRequest> = Vec::with_capacity(MAX_BATCH_WEIGHT);
    let mut sent = Instant::now();
    let mut last_size = 0;
    loop {
        // Requests that did not fit into the last call count by their weight, those in the channel by their number.
        let left_over: usize = waiting.iter().map(QueuedRequest::weight).sum();
        while !calls.is_empty() && left_over + queue.len() < EAGER_SEND_THRESHOLD {
            if timeout_at(sent + round_trip.send_interval(), calls.join_next()).await.is_err() {
                break;
            }
        }
        // A call ends at the latest deadline of its requests; that of a queued request may be earlier.
        while calls.len() >= MAX_IN_FLIGHT {
            let _ = timeout_at(Instant::now() + MIN_SEND_INTERVAL, calls.join_next()).await;
            while let Ok(request) = queue.try_recv() {
                waiting.push(request);
            }
            let now = Instant::now();
            for request in waiting.extract_if(.., |request| request.deadline.instant() <= now) {
                send_reply(request.reply, Err(request.deadline.timeout_error()));
            }
        }
        // Whether the last call was for one request, and ended before another was queued.
        let was_alone = last_size == 1 && calls.is_empty() && waiting.is_empty() && queue.is_empty();
        if waiting.is_empty() && queue.recv_many(&mut waiting, MAX_BATCH_WEIGHT).await == 0 {
            return;
        }
        while waiting.len() < MAX_BATCH_WEIGHT
            && let Ok(request) = queue.try_recv()
        {
            waiting.push(request);
        }
        // In the order in which the requests were made, whichever thread queued first.
        waiting.sort_by_key(|request| request.deadline.since);
        let batch = take_batch(&mut waiting);
        last_size = batch.len();
        if was_alone && batch.len() == 1 && waiting.is_empty() {
            let (node, requests) = (node_of(&batch[0], link), batch);
            let mut call = Box::pin(dispatch(context.clone(), node, requests));
            sent = Instant::now();
            // After a lone call, another one is likely. It needs neither a task nor the interval: it waits for its reply,
            // or for other requests. Under load that would wake this task for each batch, so it is not done there.
            let others = poll_fn(|task| {
                // A panic ends this call, not the queue.
                let polled = catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(task)));
                if !matches!(polled, Ok(Poll::Pending)) {
                    return Poll::Ready(None);
                }
                queue.poll_recv_many(task, &mut waiting, MAX_BATCH_WEIGHT).map(Some)
            });
            match others.await {
                None => {}
                Some(0) => return call.await,
                Some(_) => _ = calls.spawn(call),
            }
            continue;
        }
        for (node, requests) in split_by_node(batch, link) {
            calls.spawn(dispatch(context.clone(), node, requests));
        }
        sent = Instant::now();
        // Sends the calls before the next batch is put together.
        yield_now().await;
        while calls.try_join_next().is_some() {}
    }
}

/// Takes from the front the requests that fit into one call, at least one.
fn take_batch(waiting: &mut Vec<QueuedRequest>) -> Vec<QueuedRequest> {
    let mut weight = 0;
    let fitting = waiting.iter().position(|request| {
        weight += request.weight();
        weight > MAX_BATCH_WEIGHT
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
