//! One queue: sends its requests in batches, on whichever thread there is something to do, and gives each request its reply.
//!
//! The thread that asks sends a call when it is the call's turn, and the thread that reads replies sends the next one after a
//! reply. One thread sends at a time; the others leave their requests to it. So requests keep their order, and a lone request
//! is written by its own thread. While a connection is being made, they wait in the queue, and a task on the connection's thread
//! keeps the time. A call that certainly did not run is sent again; behind a redirect, or over TLS, by a task of its own, so that it
//! may be overtaken by others.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use redis::{Cmd, RedisResult, Value};
use smallvec::{SmallVec, smallvec};
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::timeout_at;

use super::call::{Call, Decoded, Shared};
use super::distance::RoundTripEstimate;
use super::in_flight::{BatchInFlight, EndedCall, InFlight};
use super::pacing::{Pace, Waiting};
use super::request::{QueuedRequest, ReplySender, by_call, by_caller, drop_unwanted, send_reply};

use crate::store::Deadline;
use crate::store::deadline::now;
use crate::store::redis::command::{Command, GuardedCommand};
use crate::store::redis::error::{CallError, is_lost};
use crate::store::redis::link::is_redirect;
use crate::store::redis::reply_sink::{CallId, ReplySink};
use crate::store::redis::timeouts::{grace, reply_within};
use crate::store::redis::topology::{Connection, NodeId};

/// Longest sum of the times by which missed alarms in a row are put off: a machine may be so busy that no alarm is
/// noticed in time.
const MOST_GRACE: Duration = Duration::from_millis(500);

/// A queue.
pub(super) struct Queue {
    shared: Arc<Shared>,
    round_trip: RoundTripEstimate,
    state: Mutex<State>,
    /// Wakes the task that keeps the time.
    wake_up: Notify,
}

struct State {
    waiting: Waiting,
    in_flight: InFlight,
    /// Whether a thread is sending.
    is_sending: bool,
    stage: Stage,
    /// When the task that keeps the time wakes next. It is put off only if it was missed: a wake too many is cheaper
    /// than a timer for each call.
    alarm: Option<Instant>,
    /// By how much missed alarms in a row were put off.
    grace: Duration,
    /// Until when nothing ends by its deadline, after a missed alarm.
    grace_until: Option<Instant>,
    /// Whether requests had to wait since the last alarm. Then others probably will.
    had_to_wait: bool,
}

/// What a queue does with its requests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Sends,
    /// They wait until a connection has been made.
    AwaitsConnection,
    /// The connection's thread has ended, so that nothing would end them.
    Closed,
}

/// Why a call is sent again, which certainly did not run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WhyAgain {
    /// Before it was written.
    ConnectionLost,
    UnknownScript,
    /// The server's clock was in other calendar windows than those of the call. The call now has the right ones.
    OtherWindows,
    /// Another node of the cluster has its keys.
    Moved,
}

impl Queue {
    pub(super) fn start(shared: Arc<Shared>) -> Arc<Self> {
        let runtime = shared.runtime.clone();
        let queue = Arc::new(Self {
            shared,
            round_trip: RoundTripEstimate::default(),
            state: Mutex::new(State {
                waiting: Waiting::new(),
                in_flight: InFlight::default(),
                is_sending: false,
                stage: Stage::Sends,
                alarm: None,
                grace: Duration::ZERO,
                grace_until: None,
                had_to_wait: false,
            }),
            wake_up: Notify::new(),
        });
        runtime.spawn(TimeKeeper(Arc::clone(&queue)).run());
        queue
    }

    /// Adds a request. If the queue is closed, drops it, which closes the channel for its reply.
    pub(super) fn push(self: &Arc<Self>, request: QueuedRequest) {
        let mut state = self.state.lock();
        if state.stage == Stage::Closed {
            return;
        }
        let deadline = request.deadline.instant();
        state.waiting.push(request);
        if state.stage == Stage::AwaitsConnection {
            self.set_alarm(&mut state, Some(deadline));
        } else if self.shared.is_direct {
            self.advance(state);
        } else {
            let now = now();
            let is_ready = state.waiting.is_ready(self.pace(&state), now);
            let due = if is_ready { Some(now) } else { state.waiting.due(self.pace(&state), now) };
            self.set_alarm(&mut state, due);
        }
    }

    /// Sends a command for keys of this hash slot at once, beside the requests.
    pub(super) fn send_command(
        self: &Arc<Self>,
        command: GuardedCommand,
        hash_slot: u16,
        deadline: Deadline,
        reply: ReplySender,
    ) {
        let (link, start) = (&self.shared.link, now());
        let call = Call::of_command(command, hash_slot, Some((deadline, reply)));
        match link.connection_to(link.owner(hash_slot)) {
            Some(connection) => self.send_over(&connection, smallvec![call], 0, start),
            None => self.send_alone(smallvec![call], 0, start),
        }
    }

    fn pace(&self, state: &State) -> Pace {
        Pace {
            calls: state.in_flight.busy(),
            requests: state.in_flight.requests(),
            at_once: self.round_trip.calls_at_once(),
            interval: self.round_trip.send_interval(),
        }
    }

    /// Sends batches, until the next one has to wait.
    fn advance<'a>(self: &'a Arc<Self>, mut state: MutexGuard<'a, State>) {
        if state.is_sending {
            return;
        }
        while state.stage == Stage::Sends {
            let (pace, now) = (self.pace(&state), now());
            self.put_off_if_missed(&mut state, now);
            let Some(batch) = state.waiting.next_batch(pace, now) else {
                let due = state.waiting.due(pace, now);
                state.had_to_wait |= due.is_some();
                return self.set_alarm(&mut state, due);
            };
            state.is_sending = true;
            drop(state);
            // It calls the application's metrics recorder and tracing subscriber. Their panic ends this batch, not the queue.
            let _ = catch_unwind(AssertUnwindSafe(|| self.send(batch)));
            state = self.state.lock();
            state.is_sending = false;
        }
    }

    /// Sends a batch, in parts for each node of a cluster.
    fn send(self: &Arc<Self>, batch: Vec<QueuedRequest>) {
        let link = &self.shared.link;
        if !link.is_cluster() {
            return self.send_to(Some(NodeId::SINGLE), batch);
        }
        let mut parts = SmallVec::<[(Option<NodeId>, Vec<QueuedRequest>); 1]>::new();
        for request in batch {
            let node = link.owner(request.hash_slot);
            match parts.iter_mut().find(|part| part.0 == node) {
                Some((_, requests)) => requests.push(request),
                None => parts.push((node, vec![request])),
            }
        }
        for (node, requests) in parts {
            self.send_to(node, requests);
        }
    }

    /// Sends the requests of one node.
    fn send_to(self: &Arc<Self>, node: Option<NodeId>, mut requests: Vec<QueuedRequest>) {
        let Shared { link, encoder, riders, .. } = &*self.shared;
        let start = now();
        drop_unwanted(&mut requests, start, self.round_trip.expected(link.deadline()));
        let count = requests.len();
        if count == 0 {
            return;
        }
        let connection = link.connection_to(node);
        // The connection of a cluster serves nodes to which there is none of their own.
        if connection.is_none() && (!link.is_cluster() || link.is_connecting()) {
            return self.await_connection(requests);
        }
        // Before the requests, so that these find the units again.
        let commands = riders.take_commands(encoder, link.is_cluster());
        let commands = commands.into_iter().map(|command| {
            let hash_slot = link.hash_slot(command.command.keys().first());
            Call::of_command(command, hash_slot, None)
        });
        let new = |requests| Call::of_requests(requests, node, &self.shared);
        let mut calls = SmallVec::<[Call; 1]>::new();
        if link.is_cluster() {
            // Their keys may be on any node.
            self.send_alone(commands.collect(), 0, start);
            calls.extend(by_caller(requests).flat_map(by_call).filter_map(new));
        } else {
            calls.extend(commands);
            calls.extend(by_call(requests).filter_map(new));
        }
        let is_open = |call: Call| match link.fast_fail(call.range) {
            Some(error) => {
                call.finish(Err(error));
                None
            }
            None => Some(call),
        };
        let calls: SmallVec<[Call; 1]> = calls.into_iter().filter_map(is_open).collect();
        if let Some(connection) = connection {
            self.send_over(&connection, calls, count, start);
        } else {
            if let Some(nodes) = &link.nodes {
                nodes.refresh();
            }
            self.send_alone(calls, count, start);
        }
    }

    /// Sends calls over a connection.
    fn send_over(
        self: &Arc<Self>,
        connection: &Connection,
        calls: SmallVec<[Call; 1]>,
        requests: usize,
        start: Instant,
    ) {
        if calls.is_empty() {
            return;
        }
        calls.iter().for_each(|call| call.progress.send_now(connection.id.generation));
        let commands: SmallVec<[Cmd; 1]> = calls.iter().map(|call| call.command.to_cmd()).collect();
        let count = commands.len();
        let batch = BatchInFlight::new(calls, requests, start, Some(connection.clone()));
        let Some(batch) = self.add(batch) else { return };
        if !self.write(connection, commands, CallId { batch, index: 0 }) {
            self.shared.link.lose(connection.id);
            let all = (0..count).map(|index| CallId { batch, index });
            all.for_each(|id| self.send_again(id, WhyAgain::ConnectionLost));
        }
    }

    /// Writes commands, numbered from `first`, whose replies come here. Returns false if the connection is lost: then none was written.
    fn write(self: &Arc<Self>, connection: &Connection, commands: SmallVec<[Cmd; 1]>, first: CallId) -> bool {
        let sink: Arc<dyn ReplySink> = Arc::clone(self) as _;
        connection.server.send_calls(commands, first, &sink, &self.shared.runtime)
    }

    /// Sends calls over the connection for single commands, which follows redirects.
    fn send_alone(self: &Arc<Self>, calls: SmallVec<[Call; 1]>, requests: usize, start: Instant) {
        let count = calls.len();
        if count == 0 {
            return;
        }
        let Some(batch) = self.add(BatchInFlight::new(calls, requests, start, None)) else { return };
        let mut state = self.state.lock();
        for id in (0..count).map(|index| CallId { batch, index }) {
            if let Some((call, _)) = state.in_flight.get_mut(id) {
                self.spawn_alone(id, call, start);
            }
        }
    }

    /// Leaves a call that is in flight to a task, which sends its command.
    fn spawn_alone(self: &Arc<Self>, id: CallId, call: &mut Call, start: Instant) {
        let (queue, progress, range) = (Arc::clone(self), Arc::clone(&call.progress), call.range);
        let mut command = call.take_command();
        let end = start + self.shared.link.deadline();
        self.shared.runtime.spawn(async move {
            let result = loop {
                let left = end.saturating_duration_since(now());
                let call = queue.shared.link.call(&command, range, &progress);
                let Ok(result) = reply_within(left, call).await else { return };
                let reply = result.as_ref().ok();
                if !reply.is_some_and(|reply| queue.corrects_windows(id, Some(&mut command), reply)) {
                    break result;
                }
            };
            let ended = queue.state.lock().in_flight.end(id, result.is_ok());
            let Some(EndedCall { call, .. }) = &ended else { return };
            let result = result.and_then(|reply| call.decode(reply));
            queue.finish(ended, result);
        });
    }

    /// Whether the reply to a call only corrects its calendar windows. `command` is that of the call, if it was taken out.
    fn corrects_windows(&self, id: CallId, command: Option<&mut Command>, reply: &Value) -> bool {
        let mut state = self.state.lock();
        let Some((call, _)) = state.in_flight.get_mut(id) else { return false };
        if let Some(command) = command {
            return call.is_wanted() && call.correct_windows(command, reply);
        }
        let mut command = call.take_command();
        let is_corrected = call.correct_windows(&mut command, reply);
        call.command = command;
        is_corrected
    }

    /// Sends a call again that certainly did not run.
    fn send_again(self: &Arc<Self>, id: CallId, why: WhyAgain) {
        let Shared { link, riders, .. } = &*self.shared;
        let mut state = self.state.lock();
        state.in_flight.note_detour(id.batch);
        let connection = state.in_flight.connection(id.batch);
        if let (WhyAgain::Moved, Some(nodes)) = (why, &link.nodes) {
            nodes.refresh();
            if let Some(connection) = &connection {
                riders.renew(connection.id.node);
            }
        }
        if let Some((call, start)) = state.in_flight.get_mut(id)
            && call.is_wanted()
        {
            let is_unknown = why == WhyAgain::UnknownScript && call.command.is_by_digest();
            if is_unknown {
                call.command = call.take_command().with_text();
            }
            if is_unknown || why == WhyAgain::OtherWindows {
                let command = call.command.to_cmd();
                drop(state);
                // Over the same connection, so that the next requests do not overtake it.
                if !connection.is_some_and(|connection| self.write(&connection, smallvec![command], id)) {
                    self.send_again(id, WhyAgain::ConnectionLost);
                }
                return;
            }
            call.progress = Arc::default();
            if link.is_cluster() {
                call.reroute();
            }
            self.spawn_alone(id, call, start);
        } else {
            // It would charge requests for nothing.
            let ended = state.in_flight.end(id, false);
            drop(state);
            self.finish(ended, Err(CallError::Unavailable));
        }
    }

    /// Adds a batch to those in flight. Returns its number; `None` if the queue is closed: then the batch is dropped.
    fn add(&self, batch: BatchInFlight) -> Option<u64> {
        let mut state = self.state.lock();
        if state.stage == Stage::Closed {
            return None;
        }
        let (number, due) = state.in_flight.add(batch, self.shared.link.deadline());
        self.set_alarm(&mut state, Some(due));
        Some(number)
    }

    /// Gives the requests of a call that has ended their reply, and sends what waited for it.
    fn finish(self: &Arc<Self>, ended: Option<EndedCall>, result: Result<Decoded, CallError>) {
        let Some(EndedCall { call, ends_batch, .. }) = ended else { return };
        if let Some((start, connection)) = ends_batch.filter(|_| result.is_ok()) {
            let now = now();
            let time = now.duration_since(start);
            self.round_trip.record(connection, time, now);
            self.shared.link.calls.record_round_trip(time);
        }
        call.finish(result);
        if ends_batch.is_some() {
            self.advance(self.state.lock());
        }
    }

    /// Keeps the requests, in their order, until a connection has been made.
    fn await_connection(self: &Arc<Self>, requests: Vec<QueuedRequest>) {
        let mut state = self.state.lock();
        if state.stage == Stage::Closed {
            return;
        }
        for request in requests {
            state.waiting.push(request);
        }
        let due = state.waiting.next_deadline();
        self.set_alarm(&mut state, due);
        if mem::replace(&mut state.stage, Stage::AwaitsConnection) == Stage::Sends {
            self.shared.runtime.spawn(Arc::clone(self).advance_when_connected());
        }
    }

    /// Sends what waits as soon as there is a connection, or fails it if none can be made.
    async fn advance_when_connected(self: Arc<Self>) {
        let failure = self.shared.link.connection().await.err();
        let mut state = self.state.lock();
        if state.stage == Stage::AwaitsConnection {
            state.stage = Stage::Sends;
        }
        let failed = if failure.is_some() { state.waiting.take_all() } else { VecDeque::new() };
        self.advance(state);
        if let Some(error) = failure {
            for QueuedRequest { request, rider, reply, .. } in failed {
                self.shared.riders.note_not_sent(&rider, &request);
                send_reply(reply, Err(error.clone()));
            }
        }
    }

    /// Sets the alarm for an instant, if it is not set for an earlier one.
    fn set_alarm(&self, state: &mut State, at: Option<Instant>) {
        if let Some(at) = at
            && state.alarm.is_none_or(|alarm| at < alarm)
        {
            state.alarm = Some(at);
            self.wake_up.notify_one();
        }
    }

    /// Puts off an alarm that was missed because the process stood still. So replies that came meanwhile are read
    /// before their calls time out, and waiting requests get back the time in which nothing could be sent. Returns
    /// whether the alarm was missed.
    fn put_off_if_missed(&self, state: &mut State, now: Instant) -> bool {
        let late = state.alarm.map(|alarm| now.saturating_duration_since(alarm)).unwrap_or_default();
        let Some(grace) = grace(late).filter(|grace| state.grace + *grace <= MOST_GRACE) else {
            return false;
        };
        state.grace += grace;
        state.waiting.put_off(late, now);
        (state.alarm, state.grace_until) = (None, Some(now + grace));
        self.set_alarm(state, state.grace_until);
        true
    }

    /// Ends what is due, and sends what waited for the time.
    fn at_alarm(self: &Arc<Self>, now: Instant) {
        let link = &self.shared.link;
        let mut state = self.state.lock();
        // Another thread may have put the alarm off.
        if self.put_off_if_missed(&mut state, now) || state.alarm.is_some_and(|alarm| alarm > now) {
            return self.advance(state);
        }
        state.alarm = None;
        if let Some(until) = state.grace_until.filter(|until| now < *until) {
            // Set earlier for what waits to be sent: nothing ends before.
            self.set_alarm(&mut state, Some(until));
            return self.advance(state);
        }
        (state.grace, state.grace_until) = (Duration::ZERO, None);
        let late = state.waiting.expired(now);
        let due = state.in_flight.due(now, link);
        let next = state.in_flight.next_due();
        self.set_alarm(&mut state, next);
        if state.stage == Stage::AwaitsConnection {
            let next = state.waiting.next_deadline();
            self.set_alarm(&mut state, next);
        } else if mem::take(&mut state.had_to_wait) {
            // Already, so that the next one that has to wait need not wake this task.
            let end = state.waiting.end_of_interval(self.pace(&state));
            self.set_alarm(&mut state, Some(end).filter(|end| *end > now));
        }
        drop(state);
        // First, so that the next requests of those that are told, and what waits, meet a circuit breaker that knows.
        for (range, generation) in due.timeouts {
            let record = || link.record_failure(range, link.breaker.timeout_weight(), generation);
            // It calls the application's metrics recorder, whose panic keeps no request from its reply.
            let _ = catch_unwind(AssertUnwindSafe(record));
        }
        let late = late.into_iter().map(|request| (request.reply, request.deadline));
        let in_flight = due.requests.into_iter().map(|(reply, deadline)| (Some(reply), deadline));
        for (reply, deadline) in late.chain(in_flight) {
            send_reply(reply, Err(deadline.timeout_error()));
        }
        self.advance(self.state.lock());
    }
}

impl ReplySink for Queue {
    fn reply(self: Arc<Self>, id: CallId, reply: RedisResult<Value>) -> bool {
        let link = &*self.shared.link;
        if let Err(error) = &reply {
            if error.code() == Some("NOSCRIPT") {
                self.send_again(id, WhyAgain::UnknownScript);
                return true;
            }
            if link.is_cluster() && is_redirect(error) {
                self.send_again(id, WhyAgain::Moved);
                return true;
            }
        }
        // A reply with a decision is longer.
        if let Ok(instant @ Value::BulkString(bytes)) = &reply
            && bytes.len() == size_of::<f64>()
            && self.corrects_windows(id, None, instant)
        {
            self.send_again(id, WhyAgain::OtherWindows);
            return true;
        }
        let ended = self.state.lock().in_flight.end(id, reply.is_ok());
        let Some(EndedCall { call, counts, connection, .. }) = &ended else { return true };
        let mut is_its_own = true;
        let result = match (reply, connection) {
            (Ok(value), _) => {
                let replies = call.decode(value);
                is_its_own = replies.is_ok();
                if is_its_own {
                    if *counts {
                        link.record_reply(call.range);
                    }
                } else if let Some(connection) = connection {
                    link.lose(*connection);
                }
                replies
            }
            (Err(error), Some(connection)) => {
                if is_lost(&error) {
                    link.lose(*connection);
                }
                Err(if *counts {
                    link.record_error(error, connection.generation, call.range)
                } else {
                    link.call_error(error)
                })
            }
            // A task that sends a call records its errors by itself.
            (Err(error), None) => Err(link.call_error(error)),
        };
        self.finish(ended, result);
        is_its_own
    }
}

/// The task that keeps a queue's time: it ends what has no reply in time, and sends what waited for the time. The queue ends with it.
struct TimeKeeper(Arc<Queue>);

impl TimeKeeper {
    async fn run(self) {
        let Self(queue) = &self;
        loop {
            let alarm = queue.state.lock().alarm;
            let woken = queue.wake_up.notified();
            let is_due = match alarm {
                None => {
                    woken.await;
                    false
                }
                // A timer would wait for the next millisecond.
                Some(at) if at <= now() => {
                    yield_now().await;
                    true
                }
                Some(at) => timeout_at(at.into(), woken).await.is_err(),
            };
            if is_due {
                // What is dropped may call the application's metrics recorder. Its panic does not stop the clock.
                let _ = catch_unwind(AssertUnwindSafe(|| queue.at_alarm(now())));
            }
        }
    }
}

impl Drop for TimeKeeper {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.stage = Stage::Closed;
        let (waiting, in_flight) = (state.waiting.take_all(), state.in_flight.take());
        // Outside the lock: dropping a request wakes the task that waits for its reply, which may ask again.
        drop(state);
        drop((waiting, in_flight));
    }
}
