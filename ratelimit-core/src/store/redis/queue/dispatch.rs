//! One queue: sends its requests in batches, on whichever thread there is something to do, and gives each request its reply.
//!
//! The thread that asks sends a call when it is the call's turn, and the thread that reads replies sends the next one after a
//! reply. One thread sends at a time; the others leave their requests to it. So requests keep their order, and a lone request
//! is written by its own thread. A task on the connection's thread ends what has no reply in time.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use redis::{Cmd, RedisResult, Value};
use smallvec::{SmallVec, smallvec};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::call::Call;
use super::in_flight::{BatchInFlight, EndedCall, InFlight};
use super::pacing::{Pace, Waiting};
use super::request::{QueuedRequest, by_caller, drop_unwanted, send_reply};
use super::round_trip::{RoundTripEstimate, Route};
use crate::store::redis::error::{CallError, is_lost};
use crate::store::redis::lease::Leases;
use crate::store::redis::link::{Link, is_redirect};
use crate::store::redis::protocol::{self, Encoder};
use crate::store::redis::reply_sink::{CallId, ReplySink};
use crate::store::redis::slots::SlotTable;
use crate::store::redis::topology::{NodeId, ServerConnection};

/// A queue.
pub(super) struct Queue {
    link: Arc<Link>,
    encoder: Arc<Encoder>,
    leases: Arc<Leases>,
    slots: Arc<SlotTable>,
    round_trip: RoundTripEstimate,
    /// That of the connection's thread.
    runtime: Handle,
    /// Whether the thread that asks sends its request. Not over TLS, where calls go through the connection's thread.
    is_direct: bool,
    state: Mutex<State>,
    /// Wakes the task that keeps the time.
    wake_up: Notify,
}

struct State {
    waiting: Waiting,
    in_flight: InFlight,
    /// Whether a thread is sending.
    is_sending: bool,
    /// For when the task is set that keeps the time. It is not put off, so that nearly no call wakes the task.
    alarm: Option<Instant>,
    /// Whether requests had to wait since the last alarm. Then others probably will.
    had_to_wait: bool,
    is_closed: bool,
}

/// The way of a batch.
struct Way {
    connection: ServerConnection,
    route: Route,
    generation: u64,
}

/// Why a call certainly did not run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NotRun {
    /// Before it was written.
    ConnectionLost,
    UnknownScript,
    /// Another node of the cluster has its keys.
    Moved,
    /// The server's instant is in other calendar windows.
    OtherWindows,
}

/// How often a task sends a call with calendar windows: for those of the instant that the server told, and twice for an edge in between.
const MOST_AIMS: usize = 3;

impl Queue {
    /// Starts a queue; its time is kept on `runtime`.
    pub(super) fn start(
        link: &Arc<Link>,
        runtime: &Handle,
        encoder: &Arc<Encoder>,
        leases: &Arc<Leases>,
        slots: &Arc<SlotTable>,
        is_direct: bool,
    ) -> Arc<Self> {
        let queue = Arc::new(Self {
            link: Arc::clone(link),
            encoder: Arc::clone(encoder),
            leases: Arc::clone(leases),
            slots: Arc::clone(slots),
            round_trip: RoundTripEstimate::default(),
            runtime: runtime.clone(),
            is_direct,
            state: Mutex::new(State {
                waiting: Waiting::new(),
                in_flight: InFlight::default(),
                is_sending: false,
                alarm: None,
                had_to_wait: false,
                is_closed: false,
            }),
            wake_up: Notify::new(),
        });
        runtime.spawn(TimeKeeper(Arc::clone(&queue)).run());
        queue
    }

    /// Adds a request. If the queue is closed, drops it, which closes the channel for its reply.
    pub(super) fn push(self: &Arc<Self>, request: QueuedRequest) {
        let mut state = self.state.lock();
        if state.is_closed {
            return;
        }
        state.waiting.push(request);
        if self.is_direct {
            self.advance(state);
        } else {
            let now = Instant::now();
            let is_ready = state.waiting.is_ready(self.pace(&state), now);
            let due = if is_ready { Some(now) } else { state.waiting.due(self.pace(&state), now) };
            self.set_alarm(&mut state, due);
        }
    }

    fn pace(&self, state: &State) -> Pace {
        Pace {
            calls: state.in_flight.batches(),
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
        loop {
            let (pace, now) = (self.pace(&state), Instant::now());
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
        let Some(nodes) = &self.link.nodes else { return self.send_to(None, batch) };
        let mut parts = SmallVec::<[(Option<NodeId>, Vec<QueuedRequest>); 1]>::new();
        for request in batch {
            let node = nodes.owner(request.slot);
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
        let (link, start) = (&*self.link, Instant::now());
        drop_unwanted(&mut requests, start, self.round_trip.expected(link.deadline()));
        let count = requests.len();
        if count == 0 {
            return;
        }
        let mut calls = SmallVec::<[Call; 1]>::new();
        let give_backs = self.leases.take_give_backs(&self.encoder, link.is_cluster());
        let give_backs = give_backs.into_iter().map(|call| Call::give_back(call, link));
        let lane = if link.is_cluster() { node.map(NodeId::index) } else { Some(0) };
        let new = |requests| Call::new(requests, lane, link, &self.encoder, &self.leases, &self.slots);
        if link.is_cluster() {
            // Their keys may be on any node.
            self.send_alone(give_backs, 0, start, None);
            calls.extend(by_caller(requests).filter_map(new));
        } else {
            // Before the requests, so that these find the units again.
            calls.extend(give_backs);
            calls.extend(new(requests));
        }
        let is_open = |call: Call| match link.fast_fail(call.range) {
            Some(error) => {
                call.finish(Err(error));
                None
            }
            None => Some(call),
        };
        let calls: SmallVec<[Call; 1]> = calls.into_iter().filter_map(is_open).collect();
        match self.way(node) {
            _ if calls.is_empty() => {}
            Some(way) => self.send_over(&way, calls, count, start),
            None => {
                if let Some(nodes) = &link.nodes {
                    nodes.refresh();
                }
                let route = Route { node: 0, connection: link.present_generation() };
                self.send_alone(calls, count, start, (!link.is_cluster()).then_some(route));
            }
        }
    }

    /// The connection to the server, or to a node of a cluster.
    fn way(&self, node: Option<NodeId>) -> Option<Way> {
        let Some(nodes) = &self.link.nodes else {
            let (connection, generation) = self.link.server()?;
            return Some(Way { connection, route: Route { node: 0, connection: generation }, generation });
        };
        let known = nodes.connection(node?)?;
        let route = Route { node: node?.index(), connection: known.attempt };
        Some(Way { connection: known.connection, route, generation: self.link.present_generation() })
    }

    /// Sends calls over a connection.
    fn send_over(self: &Arc<Self>, way: &Way, calls: SmallVec<[Call; 1]>, requests: usize, start: Instant) {
        let Way { connection, route, generation } = way;
        calls.iter().for_each(|call| call.progress.send_now(*generation));
        let commands: SmallVec<[Cmd; 1]> = calls.iter().map(|call| call.command.to_cmd()).collect();
        let count = commands.len();
        let batch =
            BatchInFlight::new(calls, requests, start, Some(*route), *generation, Some(connection.clone()));
        let mut state = self.state.lock();
        let (number, due) = state.in_flight.add(batch, self.link.deadline());
        self.set_alarm(&mut state, Some(due));
        drop(state);
        let sink: Arc<dyn ReplySink> = Arc::clone(self) as _;
        if !connection.send_calls(commands, CallId { batch: number, index: 0 }, &sink, &self.runtime) {
            self.lose(*route, *generation);
            let all = (0..count).map(|index| CallId { batch: number, index });
            all.for_each(|id| self.send_again(id, NotRun::ConnectionLost));
        }
    }

    /// Notes that a connection is lost.
    fn lose(&self, route: Route, generation: u64) {
        match &self.link.nodes {
            Some(nodes) => nodes.lose(route.node, route.connection),
            None => self.link.mark_lost(generation),
        }
    }

    /// Sends calls over the connection for single commands, which follows redirects, or waits until there is one.
    fn send_alone(
        self: &Arc<Self>,
        calls: impl IntoIterator<Item = Call>,
        requests: usize,
        start: Instant,
        route: Option<Route>,
    ) {
        let calls: SmallVec<[Call; 1]> = calls.into_iter().collect();
        let count = calls.len();
        if count == 0 {
            return;
        }
        let batch = BatchInFlight::new(calls, requests, start, route, self.link.present_generation(), None);
        let mut state = self.state.lock();
        let (batch, due) = state.in_flight.add(batch, self.link.deadline());
        self.set_alarm(&mut state, Some(due));
        for id in (0..count).map(|index| CallId { batch, index }) {
            if let Some((call, _)) = state.in_flight.get_mut(id) {
                self.spawn_alone(id, call, start);
            }
        }
    }

    /// Leaves a call that is in flight to a task, which sends its command.
    fn spawn_alone(self: &Arc<Self>, id: CallId, call: &mut Call, start: Instant) {
        let (queue, mut progress, range) = (Arc::clone(self), Arc::clone(&call.progress), call.range);
        let mut command = call.take_command();
        let end = start + self.link.deadline();
        self.runtime.spawn(async move {
            for _ in 0..MOST_AIMS {
                let Ok(result) = timeout_at(end, queue.link.call(&command, range, &progress)).await else {
                    return;
                };
                let mut state = queue.state.lock();
                if let (Ok(reply), Some((call, _))) = (&result, state.in_flight.get_mut(id)) {
                    call.command = command;
                    if call.is_wanted() && call.aim_again(reply) {
                        command = call.take_command();
                        call.progress = Arc::default();
                        progress = Arc::clone(&call.progress);
                        // Two calls take longer than the round trip.
                        state.in_flight.take_route(id.batch);
                        continue;
                    }
                }
                let ended = state.in_flight.end(id, result.is_ok());
                drop(state);
                return queue.finish(ended, result);
            }
            let ended = queue.state.lock().in_flight.end(id, false);
            queue.finish(ended, Err(CallError::Protocol(protocol::EXPECTED)));
        });
    }

    /// Whether the call decided nothing, because the server's instant is outside of its calendar windows. Then it is sent again.
    fn aims_again(self: &Arc<Self>, id: CallId, reply: &Value) -> bool {
        // Only such a reply is an instant alone: other calls need not be looked up.
        if !matches!(reply, Value::BulkString(bytes) if bytes.len() == 8) {
            return false;
        }
        let aims = self.state.lock().in_flight.get_mut(id).is_some_and(|(call, _)| call.aim_again(reply));
        if aims {
            self.send_again(id, NotRun::OtherWindows);
        }
        aims
    }

    /// Sends a call again that certainly did not run.
    fn send_again(self: &Arc<Self>, id: CallId, why: NotRun) {
        let mut state = self.state.lock();
        let route = state.in_flight.take_route(id.batch);
        if let (NotRun::Moved, Some(nodes)) = (why, &self.link.nodes) {
            nodes.refresh();
            if let Some(route) = route {
                self.link.lanes.renew(route.node);
            }
        }
        if let Some((call, start)) = state.in_flight.get_mut(id)
            && call.is_wanted()
        {
            if why == NotRun::UnknownScript && call.command.is_by_digest() {
                call.command = call.take_command().with_text();
                let command = call.command.to_cmd();
                let connection = state.in_flight.connection(id.batch);
                drop(state);
                return self.send_text(id, command, connection);
            }
            call.progress = Arc::default();
            if self.link.is_cluster() {
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

    /// Sends a call with the text of its script over the same connection, so that the next requests do not overtake it.
    fn send_text(self: &Arc<Self>, id: CallId, command: Cmd, connection: Option<ServerConnection>) {
        let sink: Arc<dyn ReplySink> = Arc::clone(self) as _;
        let is_sent = connection
            .is_some_and(|connection| connection.send_calls(smallvec![command], id, &sink, &self.runtime));
        if !is_sent {
            self.send_again(id, NotRun::ConnectionLost);
        }
    }

    /// Gives the requests of a call that has ended their reply, and sends what waited for it.
    fn finish(self: &Arc<Self>, ended: Option<EndedCall>, result: Result<Value, CallError>) {
        let Some(EndedCall { call, route, ends_batch_of, .. }) = ended else { return };
        if let Some(start) = ends_batch_of.filter(|_| result.is_ok()) {
            let now = Instant::now();
            let time = now.duration_since(start);
            self.round_trip.record(route, time, now);
            self.link.calls.record_round_trip(time);
        }
        call.finish(result);
        if ends_batch_of.is_some() {
            self.advance(self.state.lock());
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

    /// Ends what is due, and sends what waited for the time.
    fn at_alarm(self: &Arc<Self>, now: Instant) {
        let mut state = self.state.lock();
        state.alarm = None;
        let late = state.waiting.expired(now);
        let due = state.in_flight.due(now, &self.link);
        let next = state.in_flight.next_due();
        self.set_alarm(&mut state, next);
        if mem::take(&mut state.had_to_wait) {
            // Already, so that the next one that has to wait need not wake this task.
            let end = state.waiting.end_of_interval(self.pace(&state));
            self.set_alarm(&mut state, Some(end).filter(|end| *end > now));
        }
        self.advance(state);
        let late = late.into_iter().map(|request| (request.reply, request.deadline));
        let in_flight = due.requests.into_iter().map(|(reply, deadline)| (Some(reply), deadline));
        for (reply, deadline) in late.chain(in_flight) {
            send_reply(reply, Err(deadline.timeout_error()));
        }
    }
}

impl ReplySink for Queue {
    fn reply(self: Arc<Self>, id: CallId, reply: RedisResult<Value>) {
        let link = &*self.link;
        if reply.as_ref().is_ok_and(|reply| self.aims_again(id, reply)) {
            return;
        }
        if let Err(error) = &reply {
            if error.code() == Some("NOSCRIPT") {
                return self.send_again(id, NotRun::UnknownScript);
            }
            if link.is_cluster() && is_redirect(error) {
                return self.send_again(id, NotRun::Moved);
            }
        }
        let ended = self.state.lock().in_flight.end(id, reply.is_ok());
        let Some(EndedCall { call, counts, generation, route, .. }) = &ended else { return };
        let result = match reply {
            Ok(value) => {
                if *counts {
                    link.record_reply(call.range);
                }
                Ok(value)
            }
            Err(error) => {
                if let Some(route) = route.filter(|_| is_lost(&error)) {
                    self.lose(route, *generation);
                }
                Err(if *counts {
                    link.record_error(error, *generation, call.range)
                } else {
                    link.call_error(error)
                })
            }
        };
        self.finish(ended, result);
    }
}

/// The task that keeps a queue's time. The queue ends with it.
struct TimeKeeper(Arc<Queue>);

impl TimeKeeper {
    async fn run(self) {
        let Self(queue) = &self;
        loop {
            let alarm = queue.state.lock().alarm;
            let woken = queue.wake_up.notified();
            match alarm {
                None => woken.await,
                Some(at) if timeout_at(at, woken).await.is_err() => {
                    // A panic of the application's metrics recorder does not stop the clock.
                    let _ = catch_unwind(AssertUnwindSafe(|| queue.at_alarm(Instant::now())));
                }
                Some(_) => {}
            }
        }
    }
}

impl Drop for TimeKeeper {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_closed = true;
        let (waiting, in_flight) = (state.waiting.take_all(), state.in_flight.take());
        // Outside the lock: dropping a request wakes the task that waits for its reply, which may ask again.
        drop(state);
        drop((waiting, in_flight));
    }
}
