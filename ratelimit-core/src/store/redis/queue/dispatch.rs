//! Sends the requests of a batch, and each request its reply.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::slice;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use redis::{Pipeline, RedisError, RedisResult, Value};
use smallvec::{SmallVec, smallvec};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::Context;
use super::request::{QueuedRequest, ReplySender, first_key, send_reply};
use super::round_trip::{RoundTripEstimate, Route};
use crate::algorithm::Operation;
use crate::store::Deadline;
use crate::store::redis::command::Command;
use crate::store::redis::error::CallError;
use crate::store::redis::lease::CallLeases;
use crate::store::redis::link::{CallProgress, Link, is_redirect};
use crate::store::redis::protocol::{self, Batch, LimitArg, Request};
use crate::store::redis::slots::CallSlots;
use crate::store::redis::sweeper::send_give_back;
use crate::store::redis::topology::{NodeId, SLOT_RANGES, range_of_slot};

/// A call, and its requests.
struct Call {
    command: Command,
    batch: Batch,
    /// Slot range of the keys.
    range: usize,
    requests: Vec<RequestInFlight>,
    /// `None` if no answer of the call is of use for leases.
    leases: Option<Box<CallLeases>>,
    /// `None` if no limit of the call is one of slots.
    slots: Option<Box<CallSlots>>,
    /// Whether a message of the call only tells of slots. Then it is worth sending although no request waits.
    tells: bool,
}

/// A request whose call is in flight; without a channel once its deadline has passed, and for a message that only tells.
struct RequestInFlight {
    deadline: Deadline,
    reply: Option<ReplySender>,
}

/// A round trip that has begun.
#[derive(Clone)]
struct RoundTrip {
    start: Instant,
    /// `None` for a call to a cluster that may follow redirects.
    route: Option<Route>,
    estimate: Arc<RoundTripEstimate>,
}

impl RoundTrip {
    fn begin(context: &Context) -> Self {
        let link = &context.link;
        let route = (!link.is_cluster()).then(|| Route { node: 0, connection: link.present_generation() });
        Self { start: Instant::now(), route, estimate: Arc::clone(&context.round_trip) }
    }

    /// Records that the reply has come.
    fn end(&self, link: &Link) {
        let now = Instant::now();
        let time = now.duration_since(self.start);
        self.estimate.record(self.route, time, now);
        link.calls.record_round_trip(time);
    }
}

impl Call {
    /// Encodes one call for all these requests, and behind them the leases that go with them. `None` if there is nothing to
    /// decide.
    fn new(requests: Vec<QueuedRequest>, node: Option<NodeId>, context: &Context) -> Option<Self> {
        let range = requests.first().map_or(0, |request| range_of_slot(request.slot));
        let mut to_encode = Vec::with_capacity(requests.len());
        let mut in_flight = Vec::with_capacity(requests.len());
        let mut leases: Option<Box<CallLeases>> = None;
        let mut lease_requests = SmallVec::<[LimitArg; 1]>::new();
        let mut tells = false;
        for queued in requests {
            let tells_now = queued.told_limit().map(|limit| context.slots.take_message(&limit.key));
            let QueuedRequest { request, deadline, reply, leases: targets, .. } = queued;
            if !targets.is_empty() {
                let leases = leases.get_or_insert_with(|| {
                    let lane = if context.link.is_cluster() { node.map(NodeId::index) } else { Some(0) };
                    Box::new(CallLeases::new(&context.leases, lane))
                });
                let place = reply.is_some().then_some(to_encode.len());
                leases.add(targets, &request.limits, place, &mut lease_requests);
            }
            if reply.is_some() || tells_now == Some(true) {
                tells |= reply.is_none();
                to_encode.push(request);
                in_flight.push(RequestInFlight { deadline, reply });
            }
        }
        let lease_requests = lease_requests.into_iter();
        to_encode.extend(
            lease_requests.map(|limit| Request { operation: Operation::Check, limits: smallvec![limit] }),
        );
        if to_encode.is_empty() {
            return None;
        }
        context.link.calls.record_batch(in_flight.iter().filter(|request| request.reply.is_some()).count());
        let slots = CallSlots::new(&context.slots, &mut to_encode);
        let (call, batch) = context.encoder.encode(to_encode);
        let command = Command::Run(call);
        Some(Self { command, batch, range, requests: in_flight, leases, slots, tells })
    }

    /// The next deadline of a request; `None` when all have passed.
    fn next_deadline(&self) -> Option<Instant> {
        let open = self.requests.iter().filter(|request| request.reply.is_some());
        open.map(|request| request.deadline.instant()).min()
    }

    /// Sends the requests whose deadline has passed at `now` their error.
    fn expire(&mut self, now: Instant) {
        for request in self.requests.iter_mut().filter(|request| request.deadline.instant() <= now) {
            send_reply(request.reply.take(), Err(request.deadline.timeout_error()));
        }
    }

    /// Stores the leases, and sends each request its reply.
    fn finish(mut self, result: Result<Value, CallError>) {
        let decode = |value| self.batch.decode(value).ok_or(CallError::Protocol(protocol::EXPECTED));
        match result.and_then(decode) {
            Ok(mut replies) => {
                if let Some(slots) = self.slots.take() {
                    slots.finish(&mut replies);
                }
                // Before the requests go on, so that the next ones find the lease.
                if let Some(leases) = &mut self.leases {
                    leases.finish(&replies, self.requests.len());
                }
                for (reply, request) in replies.replies.into_iter().zip(self.requests) {
                    send_reply(request.reply, Ok(reply));
                }
            }
            Err(error) => {
                for request in self.requests {
                    send_reply(request.reply, Err(error.clone()));
                }
            }
        }
    }
}

/// Sends the requests of one node, and each request its reply, or an error at its deadline.
pub(super) async fn dispatch(context: Context, node: Option<NodeId>, mut requests: Vec<QueuedRequest>) {
    let trip = RoundTrip::begin(&context);
    let Context { link, encoder, leases, round_trip, .. } = &context;
    drop_unwanted(&mut requests, trip.start, round_trip.expected(link.deadline()));
    if requests.is_empty() {
        return;
    }
    // Before the requests, so that these find the units again.
    for call in leases.take_give_backs(encoder, link.is_cluster()) {
        start_now(send_give_back(Arc::clone(link), call)).await;
    }
    let mut calls: Vec<Call> = if link.is_cluster() {
        by_caller(requests).filter_map(|requests| Call::new(requests, node, &context)).collect()
    } else {
        Call::new(requests, node, &context).into_iter().collect()
    };
    if calls.is_empty() {
        return;
    }
    if let Some(node) = node {
        calls = send_pipeline(link, node, calls, trip.clone()).await;
        for leases in calls.iter_mut().filter_map(|call| call.leases.as_mut()) {
            leases.reroute();
        }
    } else if let Some(nodes) = &link.nodes {
        nodes.refresh();
    }
    if calls.len() == 1
        && let Some(call) = calls.pop()
    {
        return send_alone(link, call, &trip).await;
    }
    let mut alone = JoinSet::new();
    for call in calls {
        let (link, trip) = (Arc::clone(link), trip.clone());
        alone.spawn(async move { send_alone(&link, call, &trip).await });
    }
    while alone.join_next().await.is_some() {}
}

/// Drops the requests that are not sent at `start`, so that they are not charged for nothing.
fn drop_unwanted(requests: &mut Vec<QueuedRequest>, start: Instant, expected: Duration) {
    // The reply would come too late. A request with more than half of its time left is sent in any case: otherwise one slow
    // reply would hold back all shorter deadlines.
    let is_late = |deadline: Deadline| deadline.instant() <= start + expected.min(deadline.limit / 2);
    for request in requests.extract_if(.., |request| is_late(request.deadline)) {
        send_reply(request.reply, Err(request.deadline.timeout_error()));
    }
    requests.retain(|request| !request.is_abandoned());
}

/// Starts a future so far that its command is written before the next one, and leaves the rest to a task.
async fn start_now(future: impl Future<Output = ()> + Send + 'static) {
    let mut future = Box::pin(future);
    let is_done = poll_fn(|task| Poll::Ready(future.as_mut().poll(task).is_ready())).await;
    if !is_done {
        tokio::spawn(future);
    }
}

/// The requests of each caller, in their order.
fn by_caller(requests: Vec<QueuedRequest>) -> impl Iterator<Item = Vec<QueuedRequest>> {
    let mut callers: BTreeMap<[u8; 16], Vec<QueuedRequest>> = BTreeMap::new();
    for request in requests {
        let caller = first_key(&request.request).map(|key| *key.caller()).unwrap_or_default();
        callers.entry(caller).or_default().push(request);
    }
    callers.into_values()
}

/// Waits until the calls that are being sent have their reply, and sends requests whose deadline passes meanwhile their error.
/// `None` if there is no reply within the store's deadline.
async fn wait_for_reply<T, E>(
    link: &Link,
    calls: &mut [Call],
    mut sending: Pin<&mut impl Future<Output = Result<T, E>>>,
    progress: &CallProgress,
    trip: &RoundTrip,
) -> Option<Result<T, E>> {
    let mut is_recorded = false;
    loop {
        let next = calls.iter().filter_map(Call::next_deadline).min();
        // When all requests have hit their deadline, the reply still shows how the server is, and its leases are of use.
        let end = next.unwrap_or_else(|| trip.start + link.deadline());
        if let Ok(result) = timeout_at(end, sending.as_mut()).await {
            if result.is_ok() {
                trip.end(link);
            }
            return Some(result);
        }
        // One call is one failure, however many requests are in it.
        is_recorded = is_recorded || record_timeouts(link, calls, progress);
        let passed = next?;
        for call in &mut *calls {
            call.expire(passed);
        }
    }
}

/// Sends a call over the connection for single commands, which follows redirects.
async fn send_alone(link: &Link, mut call: Call, trip: &RoundTrip) {
    let (range, progress) = (call.range, CallProgress::default());
    // The requests are borrowed while the command is in flight.
    let command = std::mem::replace(&mut call.command, Command::Delete(SmallVec::new()));
    let sending = pin!(link.call(&command, range, &progress));
    if let Some(result) = wait_for_reply(link, slice::from_mut(&mut call), sending, &progress, trip).await {
        call.finish(result);
    }
}

/// Sends calls to their node in one pipeline, and judges the reply to each by itself. Returns the calls that certainly did
/// not run: the node rejected them because their slot has moved or it does not know the script, or it has no connection.
async fn send_pipeline(link: &Link, node: NodeId, calls: Vec<Call>, mut trip: RoundTrip) -> Vec<Call> {
    let Some(nodes) = &link.nodes else { return calls };
    let Some(mut connection) = nodes.connection(node) else { return calls };
    trip.route = Some(Route { node: node.index(), connection: connection.number() });
    let mut sent = Vec::with_capacity(calls.len());
    let mut pipeline = Pipeline::with_capacity(calls.len());
    for call in calls {
        if let Some(error) = link.fast_fail(call.range) {
            call.finish(Err(error));
            continue;
        }
        pipeline.add_command(call.command.to_cmd());
        sent.push(call);
    }
    if sent.is_empty() {
        return sent;
    }
    let generation = link.present_generation();
    let progress = CallProgress::now(generation);
    let sending = pin!(nodes.send(&mut connection, &pipeline));
    let Some(replies) = wait_for_reply(link, &mut sent, sending, &progress, &trip).await else {
        return Vec::new();
    };
    let mut not_run = finish_pipeline(link, node, sent, replies, generation);
    // A call without waiting requests would charge them for nothing. Slots that it takes are freed with its reply.
    not_run.retain(|call| call.next_deadline().is_some() || call.tells);
    not_run
}

/// Slot ranges of which the pipeline has recorded an event. A pipeline counts once per slot range, as a batch does.
#[derive(Default)]
struct RangeSet(u64);

impl RangeSet {
    /// Adds a range. Returns whether it is new.
    fn insert(&mut self, range: usize) -> bool {
        let bit = 1 << range;
        let is_new = self.0 & bit == 0;
        self.0 |= bit;
        is_new
    }
}

const _: () = assert!(SLOT_RANGES <= 64, "one bit per slot range");

/// Fails a call, and records the error if it is the first of the slot range.
fn fail(link: &Link, call: Call, error: RedisError, generation: u64, failed: &mut RangeSet) {
    let error = if failed.insert(call.range) {
        link.record_error(error, generation, call.range)
    } else {
        link.call_error(error)
    };
    call.finish(Err(error));
}

/// Gives each call its reply. Returns the calls that certainly did not run.
fn finish_pipeline(
    link: &Link,
    node: NodeId,
    calls: Vec<Call>,
    replies: RedisResult<Vec<Value>>,
    generation: u64,
) -> Vec<Call> {
    let mut not_run = Vec::new();
    match replies {
        Ok(replies) if replies.len() == calls.len() => {
            let (mut answered, mut failed) = (RangeSet::default(), RangeSet::default());
            for (call, reply) in calls.into_iter().zip(replies) {
                match reply.extract_error() {
                    Ok(value) => {
                        if answered.insert(call.range) {
                            link.record_reply(call.range);
                        }
                        call.finish(Ok(value));
                    }
                    Err(error) if is_redirect(&error) || error.code() == Some("NOSCRIPT") => {
                        if error.code() != Some("NOSCRIPT")
                            && let Some(nodes) = &link.nodes
                        {
                            nodes.refresh();
                            link.lanes.renew(node.index());
                        }
                        not_run.push(call);
                    }
                    Err(error) => fail(link, call, error, generation, &mut failed),
                }
            }
        }
        Ok(_) => calls.into_iter().for_each(|call| call.finish(Err(CallError::Protocol(protocol::EXPECTED)))),
        Err(error) => {
            let mut failed = RangeSet::default();
            for call in calls {
                fail(link, call, error.clone(), generation, &mut failed);
            }
        }
    }
    not_run
}

/// Records for each slot range that requests hit their deadline. Returns true if the connection is to blame.
fn record_timeouts(link: &Link, calls: &[Call], progress: &CallProgress) -> bool {
    let mut ranges: Vec<usize> = calls.iter().map(|call| call.range).collect();
    ranges.sort_unstable();
    ranges.dedup();
    let mut is_to_blame = false;
    for range in ranges {
        is_to_blame |= link.record_timeout(range, progress);
    }
    is_to_blame
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::queue::request::tests::checks;

    #[tokio::test]
    async fn a_request_whose_future_was_dropped_is_not_sent() {
        let (mut requests, mut replies) = checks(3);
        let since: Vec<Instant> = requests.iter().map(|request| request.deadline.since).collect();
        drop(replies.remove(1));
        drop_unwanted(&mut requests, Instant::now(), Duration::ZERO);
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

    #[test]
    fn a_pipeline_counts_once_per_slot_range() {
        let mut seen = RangeSet::default();
        assert_eq!([3, 4, 3, 63, 63].map(|range| seen.insert(range)), [true, true, false, true, false]);
    }
}
