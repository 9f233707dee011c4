//! One queue: sends its requests in batches, on whichever thread there is something to do, and gives each request its reply.
//!
//! The thread that asks sends a call when it is the call's turn, and the thread that reads replies sends the next one after a
//! reply. One thread sends at a time; the others leave their requests to it. So requests keep their order, and a lone request
//! is written by its own thread. While a connection is being made, they wait in the queue. A call that certainly did not run
//! is sent again ([`super::again`]), and a task on the connection's thread keeps the time ([`super::alarm`]).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use redis::{Cmd, RedisResult, Value};
use smallvec::SmallVec;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Shared;
use super::call::{Call, NotRun};
use super::in_flight::{BatchInFlight, EndedCall, InFlight};
use super::pacing::{Pace, Waiting};
use super::request::{QueuedRequest, by_caller, by_window, drop_unwanted};
use super::round_trip::{RoundTripEstimate, Route};
use crate::store::redis::error::{CallError, is_lost};
use crate::store::redis::link::is_redirect;
use crate::store::redis::reply_sink::{CallId, ReplySink};
use crate::store::redis::topology::{NodeId, ServerConnection};

/// A queue.
pub(super) struct Queue {
    pub(super) shared: Arc<Shared>,
    round_trip: RoundTripEstimate,
    pub(super) state: Mutex<State>,
    /// Wakes the task that keeps the time.
    pub(super) wake_up: Notify,
}

pub(super) struct State {
    pub(super) waiting: Waiting,
    pub(super) in_flight: InFlight,
    /// Whether a thread is sending.
    is_sending: bool,
    pub(super) stage: Stage,
    /// For when the task is set that keeps the time. It is not put off, so that nearly no call wakes the task.
    pub(super) alarm: Option<Instant>,
    /// Whether requests had to wait since the last alarm. Then others probably will.
    pub(super) had_to_wait: bool,
}

/// What a queue does with its requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Sends,
    /// They wait until a connection has been made.
    AwaitsConnection,
    /// The connection's thread has ended, so that nothing would end them.
    Closed,
}

/// The way of a batch.
struct Way {
    connection: ServerConnection,
    route: Route,
    generation: u64,
}

impl Queue {
    pub(super) fn start(shared: Arc<Shared>) -> Arc<Self> {
        let queue = Arc::new(Self {
            shared,
            round_trip: RoundTripEstimate::default(),
            state: Mutex::new(State {
                waiting: Waiting::new(),
                in_flight: InFlight::default(),
                is_sending: false,
                stage: Stage::Sends,
                alarm: None,
                had_to_wait: false,
            }),
            wake_up: Notify::new(),
        });
        queue.keep_time();
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
            let now = Instant::now();
            let is_ready = state.waiting.is_ready(self.pace(&state), now);
            let due = if is_ready { Some(now) } else { state.waiting.due(self.pace(&state), now) };
            self.set_alarm(&mut state, due);
        }
    }

    pub(super) fn pace(&self, state: &State) -> Pace {
        Pace {
            calls: state.in_flight.batches(),
            requests: state.in_flight.requests(),
            at_once: self.round_trip.calls_at_once(),
            interval: self.round_trip.send_interval(),
        }
    }

    /// Sends batches, until the next one has to wait.
    pub(super) fn advance<'a>(self: &'a Arc<Self>, mut state: MutexGuard<'a, State>) {
        if state.is_sending {
            return;
        }
        while state.stage == Stage::Sends {
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
        let Some(nodes) = &self.shared.link.nodes else { return self.send_to(None, batch) };
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
        let Shared { link, encoder, leases, slots, .. } = &*self.shared;
        let start = Instant::now();
        drop_unwanted(&mut requests, start, self.round_trip.expected(link.deadline()));
        let count = requests.len();
        if count == 0 {
            return;
        }
        let way = self.way(node);
        // The connection of a cluster serves nodes to which there is none of their own.
        if way.is_none() && (!link.is_cluster() || link.is_connecting()) {
            return self.await_connection(requests);
        }
        let mut calls = SmallVec::<[Call; 1]>::new();
        let give_backs = leases.take_give_backs(encoder, link.is_cluster());
        let give_backs = give_backs.into_iter().map(|call| Call::give_back(call, link));
        let lane = if link.is_cluster() { node.map(NodeId::index) } else { Some(0) };
        let new = |requests| Call::new(requests, lane, link, encoder, leases, slots);
        if link.is_cluster() {
            // Their keys may be on any node.
            self.send_alone(give_backs, 0, start);
            calls.extend(by_caller(requests).flat_map(by_window).filter_map(new));
        } else {
            // Before the requests, so that these find the units again.
            calls.extend(give_backs);
            calls.extend(by_window(requests).filter_map(new));
        }
        let is_open = |call: Call| match link.fast_fail(call.range) {
            Some(error) => {
                call.finish(Err(error));
                None
            }
            None => Some(call),
        };
        let calls: SmallVec<[Call; 1]> = calls.into_iter().filter_map(is_open).collect();
        match way {
            _ if calls.is_empty() => {}
            Some(way) => self.send_over(&way, calls, count, start),
            None => {
                if let Some(nodes) = &link.nodes {
                    nodes.refresh();
                }
                self.send_alone(calls, count, start);
            }
        }
    }

    /// The connection to the server, or to a node of a cluster.
    fn way(&self, node: Option<NodeId>) -> Option<Way> {
        let link = &self.shared.link;
        let Some(nodes) = &link.nodes else {
            let (connection, generation) = link.server()?;
            return Some(Way { connection, route: Route { node: 0, connection: generation }, generation });
        };
        let known = nodes.connection(node?)?;
        let route = Route { node: node?.index(), connection: known.attempt };
        Some(Way { connection: known.connection, route, generation: link.present_generation() })
    }

    /// Sends calls over a connection.
    fn send_over(self: &Arc<Self>, way: &Way, calls: SmallVec<[Call; 1]>, requests: usize, start: Instant) {
        let Way { connection, route, generation } = way;
        calls.iter().for_each(|call| call.progress.send_now(*generation));
        let commands: SmallVec<[Cmd; 1]> = calls.iter().map(|call| call.command.to_cmd()).collect();
        let count = commands.len();
        let batch =
            BatchInFlight::new(calls, requests, start, Some(*route), *generation, Some(connection.clone()));
        let Some(batch) = self.add(batch) else { return };
        let sink: Arc<dyn ReplySink> = Arc::clone(self) as _;
        if !connection.send_calls(commands, CallId { batch, index: 0 }, &sink, &self.shared.runtime) {
            self.lose(*route, *generation);
            let all = (0..count).map(|index| CallId { batch, index });
            all.for_each(|id| self.send_again(id, NotRun::ConnectionLost));
        }
    }

    /// Adds a batch to those in flight. Returns its number; `None` if the queue is closed: then the batch is dropped.
    pub(super) fn add(&self, batch: BatchInFlight) -> Option<u64> {
        let mut state = self.state.lock();
        if state.stage == Stage::Closed {
            return None;
        }
        let (number, due) = state.in_flight.add(batch, self.shared.link.deadline());
        self.set_alarm(&mut state, Some(due));
        Some(number)
    }

    /// Notes that a connection is lost.
    fn lose(&self, route: Route, generation: u64) {
        match &self.shared.link.nodes {
            Some(nodes) => nodes.lose(route.node, route.connection),
            None => self.shared.link.mark_lost(generation),
        }
    }

    /// Gives the requests of a call that has ended their reply, and sends what waited for it.
    pub(super) fn finish(self: &Arc<Self>, ended: Option<EndedCall>, result: Result<Value, CallError>) {
        let Some(EndedCall { call, route, ends_batch_of, .. }) = ended else { return };
        if let Some(start) = ends_batch_of.filter(|_| result.is_ok()) {
            let now = Instant::now();
            let time = now.duration_since(start);
            self.round_trip.record(route, time, now);
            self.shared.link.calls.record_round_trip(time);
        }
        call.finish(result);
        if ends_batch_of.is_some() {
            self.advance(self.state.lock());
        }
    }
}

impl ReplySink for Queue {
    fn reply(self: Arc<Self>, id: CallId, reply: RedisResult<Value>) {
        let link = &*self.shared.link;
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
