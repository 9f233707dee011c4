//! Calls that are sent another way, or again: over the client crate's connection, and those that certainly did not run.
//!
//! Each is one task, so calls of this kind may be overtaken by others.

use std::sync::Arc;

use redis::{Cmd, Value};
use smallvec::{SmallVec, smallvec};
use tokio::time::{Instant, timeout_at};

use super::call::{Call, NotRun};
use super::dispatch::Queue;
use super::in_flight::BatchInFlight;
use crate::store::redis::error::CallError;
use crate::store::redis::protocol;
use crate::store::redis::reply_sink::{CallId, ReplySink};
use crate::store::redis::topology::ServerConnection;

/// How often a task sends a call with calendar windows: for those of the instant that the server told, and twice for an edge in between.
const MOST_AIMS: usize = 3;

impl Queue {
    /// Sends calls over the connection for single commands, which follows redirects.
    pub(super) fn send_alone(
        self: &Arc<Self>,
        calls: impl IntoIterator<Item = Call>,
        requests: usize,
        start: Instant,
    ) {
        let calls: SmallVec<[Call; 1]> = calls.into_iter().collect();
        let count = calls.len();
        if count == 0 {
            return;
        }
        let generation = self.shared.link.present_generation();
        let Some(batch) = self.add(BatchInFlight::new(calls, requests, start, None, generation, None)) else {
            return;
        };
        let mut state = self.state.lock();
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
        let end = start + self.shared.link.deadline();
        self.shared.runtime.spawn(async move {
            for _ in 0..MOST_AIMS {
                let Ok(result) = timeout_at(end, queue.shared.link.call(&command, range, &progress)).await
                else {
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
    pub(super) fn aims_again(self: &Arc<Self>, id: CallId, reply: &Value) -> bool {
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
    pub(super) fn send_again(self: &Arc<Self>, id: CallId, why: NotRun) {
        let mut state = self.state.lock();
        let route = state.in_flight.take_route(id.batch);
        if let (NotRun::Moved, Some(nodes)) = (why, &self.shared.link.nodes) {
            nodes.refresh();
            if let Some(route) = route {
                self.shared.link.lanes.renew(route.node);
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
            if self.shared.link.is_cluster() {
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
        let is_sent = connection.is_some_and(|connection| {
            connection.send_calls(smallvec![command], id, &sink, &self.shared.runtime)
        });
        if !is_sent {
            self.send_again(id, NotRun::ConnectionLost);
        }
    }
}
