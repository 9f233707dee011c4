//! Queues and batches: requests that come while a call is in flight go together into the next call.
//!
//! A request never waits for a batch to fill. With no call in flight it is sent at once, by itself. Under load one call
//! decides many requests, in the order in which they were made and with one reading of the clock. Single calls would decide
//! the same: the script decides each request after charging those before it. Another call is sent while one is in
//! flight if half a batch is queued, or if the call takes longer than the [send interval](MIN_SEND_INTERVAL).
//!
//! A cluster has one queue per slot range, and one call per caller in a batch: while a slot moves from one node to another,
//! a call for several callers might find some of their keys here and some there.

mod round_trip;

use std::collections::BTreeMap;
use std::mem;
use std::pin::pin;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, timeout_at};

use self::round_trip::{MIN_SEND_INTERVAL, RoundTripEstimate};
use super::command::Command;
use super::deadline::RequestDeadline;
use super::error::CallError;
use super::key::StateKey;
use super::link::{CallProgress, Link};
use super::protocol::{self, Encoder, Reply, Request};
use super::topology::{SLOT_RANGES, slot_range};
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

/// The channel for a reply.
type ReplySender = oneshot::Sender<Result<Reply, CallError>>;

/// A queued request.
struct QueuedRequest {
    request: Request,
    deadline: RequestDeadline,
    reply: ReplySender,
}

impl QueuedRequest {
    /// Part of [`MAX_BATCH_WEIGHT`] that the request takes.
    fn weight(&self) -> usize {
        self.request.limits.iter().map(|limit| limit.policy.weight()).sum()
    }
}

/// The queues of a store. Their length is bounded by time: no request waits longer than its deadline.
pub(super) struct Queues {
    senders: Box<[mpsc::UnboundedSender<QueuedRequest>]>,
    link: Arc<Link>,
}

impl Queues {
    /// Starts the queues, which run on `runtime`.
    pub(super) fn start(link: &Arc<Link>, runtime: &Handle, encoder: &Arc<Encoder>) -> Self {
        let size = if link.is_cluster() { SLOT_RANGES } else { 1 };
        let senders = (0..size).map(|_| {
            let (sender, receiver) = mpsc::unbounded_channel();
            runtime.spawn(run_queue(Arc::clone(link), receiver, Arc::clone(encoder)));
            sender
        });
        Self { senders: senders.collect(), link: Arc::clone(link) }
    }

    /// Queues a request whose keys are on one node; the result waits for the reply.
    pub(super) fn submit(&self, request: Request, deadline: RequestDeadline) -> PendingReply {
        let range = range_of(&self.link, &request);
        let (reply, receiver) = oneshot::channel();
        // Fails here and not on the thread, which may be busy with connecting: TLS takes computing time.
        if let Some(error) = self.link.fast_fail(range) {
            send_reply(reply, Err(error));
        } else {
            // Fails when the thread has ended; then the reply's channel is closed, too.
            let _ = self.senders[range].send(QueuedRequest { request, deadline, reply });
        }
        PendingReply(receiver)
    }
}

/// A reply that has not arrived yet.
pub(super) struct PendingReply(oneshot::Receiver<Result<Reply, CallError>>);

impl PendingReply {
    pub(super) async fn reply(self) -> Result<Reply, StoreError> {
        self.0.await.unwrap_or(Err(CallError::Unavailable)).map_err(StoreError::from)
    }
}

/// Runs one queue until its sender is dropped.
async fn run_queue(
    link: Arc<Link>,
    mut queue: mpsc::UnboundedReceiver<QueuedRequest>,
    encoder: Arc<Encoder>,
) {
    let mut calls = JoinSet::new();
    let mut waiting: Vec<QueuedRequest> = Vec::with_capacity(MAX_BATCH_WEIGHT);
    let mut sent = Instant::now();
    let round_trip = Arc::new(RoundTripEstimate::default());
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
        for requests in split_by_caller(batch, link.is_cluster()) {
            let (link, encoder, round_trip) =
                (Arc::clone(&link), Arc::clone(&encoder), Arc::clone(&round_trip));
            calls.spawn(dispatch(link, requests, encoder, round_trip));
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

/// Splits a batch into calls whose keys are certainly on one node: in a cluster one per caller. Keeps the order.
fn split_by_caller(batch: Vec<QueuedRequest>, is_cluster: bool) -> Vec<Vec<QueuedRequest>> {
    if !is_cluster {
        return if batch.is_empty() { Vec::new() } else { vec![batch] };
    }
    let mut callers: BTreeMap<[u8; 16], Vec<QueuedRequest>> = BTreeMap::new();
    for request in batch {
        let caller = first_key(&request.request).map(|key| *key.caller()).unwrap_or_default();
        callers.entry(caller).or_default().push(request);
    }
    callers.into_values().collect()
}

/// A request whose call is in flight; without a channel once its deadline has passed.
struct RequestInFlight {
    deadline: RequestDeadline,
    reply: Option<ReplySender>,
}

/// Sends one call for all these requests, and sends each its reply, or an error at its deadline.
async fn dispatch(
    link: Arc<Link>,
    mut requests: Vec<QueuedRequest>,
    encoder: Arc<Encoder>,
    round_trip: Arc<RoundTripEstimate>,
) {
    let start = Instant::now();
    // A request whose reply would come too late is not sent, so that it is not charged for nothing. A request with more
    // than half of its time left is sent in any case: otherwise one slow reply would hold back all shorter deadlines.
    let expected = round_trip.expected(link.deadline());
    let is_late = |deadline: RequestDeadline| deadline.instant() <= start + expected.min(deadline.limit / 2);
    for request in requests.extract_if(.., |request| is_late(request.deadline)) {
        send_reply(request.reply, Err(request.deadline.timeout_error()));
    }
    // A request whose future was dropped is not sent either.
    requests.retain(|request| !request.reply.is_closed());
    let Some(first) = requests.first() else { return };
    let range = range_of(&link, &first.request);
    let (mut to_send, mut waiting) = (Vec::with_capacity(requests.len()), Vec::with_capacity(requests.len()));
    for QueuedRequest { request, deadline, reply } in requests {
        to_send.push(request);
        waiting.push(RequestInFlight { deadline, reply: Some(reply) });
    }
    let (call, batch) = encoder.encode(to_send);
    let command = Command::Run(call);
    let progress = CallProgress::default();
    let mut call = pin!(link.call(&command, range, &progress));
    let mut is_recorded = false;
    let result = loop {
        let in_flight = waiting.iter().filter(|request| request.reply.is_some());
        let Some(next) = in_flight.map(|request| request.deadline.instant()).min() else {
            // All requests hit their deadline. The end of the call still shows how the server is.
            match timeout_at(start + link.deadline(), call).await {
                Ok(Ok(_)) => round_trip.record(start.elapsed()),
                Err(_) if !is_recorded => _ = link.record_timeout(range, &progress),
                _ => {}
            }
            return;
        };
        if let Ok(result) = timeout_at(next, call.as_mut()).await {
            break result;
        }
        // One call is one failure, however many requests are in it.
        is_recorded = is_recorded || link.record_timeout(range, &progress);
        for request in waiting.iter_mut().filter(|request| request.deadline.instant() <= next) {
            if let Some(reply) = request.reply.take() {
                send_reply(reply, Err(request.deadline.timeout_error()));
            }
        }
    };
    if result.is_ok() {
        round_trip.record(start.elapsed());
    }
    let replies = result.and_then(|value| batch.decode(value).ok_or(CallError::Protocol(protocol::EXPECTED)));
    let senders = waiting.into_iter().map(|request| request.reply);
    match replies {
        Ok(replies) => {
            for (reply, sender) in replies.into_iter().zip(senders) {
                if let Some(sender) = sender {
                    send_reply(sender, Ok(reply));
                }
            }
        }
        Err(error) => senders.flatten().for_each(|sender| send_reply(sender, Err(error.clone()))),
    }
}

/// Sends a request its reply, unless the request's future was dropped.
fn send_reply(sender: ReplySender, reply: Result<Reply, CallError>) {
    let _ = sender.send(reply);
}

/// The slot range of a request's keys.
fn range_of(link: &Link, request: &Request) -> usize {
    match first_key(request) {
        Some(key) if link.is_cluster() => slot_range(&key.hash_tag()),
        _ => 0,
    }
}

/// The first key of a request, which decides the node: all keys of a request are on one.
fn first_key(request: &Request) -> Option<&StateKey> {
    request.limits.first().map(|limit| &limit.key)
}
