//! The task of a queue: sends its requests in batches, gives each its reply or the end of its deadline, and
//! sends again what did not run.

#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::future::{Either, FutureExt, OptionFuture};
use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::{Cmd, ErrorKind, RedisError, RedisResult, Value};
use smallvec::{SmallVec, smallvec};
use tokio::task::{unconstrained, yield_now};

use super::alarm::Alarm;
use super::call::{Call, Decoded};
use super::in_flight::{BatchInFlight, CallId, EndedCall, InFlight};
use super::inbox::Inbox;
use super::request::{Queued, QueuedCommand, QueuedRequest, by_call, by_caller, drop_unwanted, send_reply};
use crate::store::deadline::{now, sleep_until};
use crate::store::redis::command::Command;
use crate::store::redis::connections::Connections;
use crate::store::redis::error::{CallError, is_lost};
use crate::store::redis::link::{CallProgress, is_redirect};
use crate::store::redis::shared::Shared;
use crate::store::redis::timeouts::{is_stall, reply_within};
use crate::store::redis::topology::{CallReplies, Connection, NodeId};

/// Maximum number of calls in flight of one queue. It bounds the rate of calls without a timer: a full server
/// makes round trips longer, so batches grow. Any number from 6 to 12 does, from one runtime to hundreds, at
/// round trips up to 2 ms.
const MAX_CALLS: usize = 8;

/// So long does a request wait for one of these calls, as a part of the store's deadline: then a call goes
/// beside them, so that a round trip above half of the deadline fails no request.
const PATIENCE: u32 = 10;

/// Maximum number of calls in flight all the same. Further requests stay queued until their deadline.
const MAX_ALL_CALLS: usize = 64;

/// The task of a queue, until its runtime ends. What is queued is dropped with the future, also if it was
/// never polled.
pub(super) fn drive(
    inbox: Arc<Inbox>,
    shared: Arc<Shared>,
    connections: Arc<Connections>,
) -> impl Future<Output = ()> {
    // When the budget of a task ends, tokio wakes the calls that it stopped in reverse order. They would be
    // written in that order.
    unconstrained(Driver::new(inbox, shared, connections, carry).run())
}

struct Driver<C, F: Future> {
    inbox: Arc<Inbox>,
    shared: Arc<Shared>,
    connections: Arc<Connections>,
    carry: C,
    in_flight: InFlight,
    errands: FuturesUnordered<F>,
    alarm: Alarm,
    /// Whether requests wait until a connection has been made.
    awaits_connection: bool,
    /// The last reading of the clock: all of a batch counts from it.
    last_ran: Instant,
    /// The time of the last round trip.
    round_trip: Duration,
    /// Weight of the timeouts, less that of the replies between them. Those of other lanes do not take them
    /// back.
    failures: AtomicU32,
}

/// What takes time.
enum Errand {
    /// Calls in one write over a connection, numbered from `first`.
    Send { connection: Connection, commands: SmallVec<[Cmd; 1]>, first: CallId },
    /// A call over the connection for single commands, which follows redirects.
    SendAlone {
        shared: Arc<Shared>,
        id: CallId,
        command: Command,
        range: usize,
        progress: Arc<CallProgress>,
        end: Instant,
    },
    /// The next connection of the store.
    AwaitConnection(Arc<Shared>),
}

/// How an errand ended.
enum Ended {
    Sent {
        first: CallId,
        replies: CallReplies,
    },
    /// `None` if there was no reply in time, so that nothing is known of the call.
    SentAlone {
        id: CallId,
        command: Command,
        result: Option<Result<Value, CallError>>,
    },
    Connected(Result<(), CallError>),
}

/// Why a call is sent again, which certainly did not run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WhyAgain {
    UnknownScript,
    /// The server's clock was in other calendar windows than those of the call. The call now has the right
    /// ones.
    OtherWindows,
    /// Another node of the cluster has its keys.
    Moved,
}

fn carry(errand: Errand) -> impl Future<Output = Ended> {
    match errand {
        Errand::Send { connection, commands, first } => Either::Left(async move {
            Ended::Sent { first, replies: connection.server.send_calls(commands).await }
        }),
        // Boxed, because they are rare and their futures are large.
        Errand::SendAlone { shared, id, command, range, progress, end } => {
            let link = Arc::clone(&shared.link);
            let call = async move {
                let left = end.saturating_duration_since(now());
                let result = reply_within(left, link.call(&command, range, &progress)).await.ok();
                (command, result)
            };
            // On the store's own runtime, on which the cluster connection lives.
            let call = shared.runtime.spawn(call);
            let unavailable = || (Command::Delete(SmallVec::new()), Some(Err(CallError::Unavailable)));
            let ended = call.map(move |ended| {
                let (command, result) = ended.unwrap_or_else(|_| unavailable());
                Ended::SentAlone { id, command, result }
            });
            Either::Right(ended.boxed())
        }
        Errand::AwaitConnection(shared) => {
            let connected = async move { Ended::Connected(shared.link.connection().await.map(drop)) };
            Either::Right(connected.boxed())
        }
    }
}

impl<C: Fn(Errand) -> F, F: Future<Output = Ended>> Driver<C, F> {
    fn new(inbox: Arc<Inbox>, shared: Arc<Shared>, connections: Arc<Connections>, carry: C) -> Self {
        Self {
            inbox,
            shared,
            connections,
            carry,
            in_flight: InFlight::default(),
            errands: FuturesUnordered::new(),
            alarm: Alarm::default(),
            awaits_connection: false,
            last_ran: now(),
            round_trip: Duration::ZERO,
            failures: AtomicU32::new(0),
        }
    }

    async fn run(mut self) {
        let inbox = Arc::clone(&self.inbox);
        let mut timer = pin!(OptionFuture::default());
        let mut set_for = None;
        loop {
            self.put_off_if_missed();
            self.guarded(Self::send_queued);
            if self.alarm.at() != set_for {
                set_for = self.alarm.at();
                inbox.content.lock().alarm = set_for;
                timer.set(set_for.map(sleep_until).into());
            }
            tokio::select! {
                biased;
                Some(ended) = self.errands.next() => {
                    self.guarded(|driver| driver.end(ended));
                    self.end_ready().await;
                }
                () = inbox.wake_up.notified() => {}
                _ = timer.as_mut(), if set_for.is_some() => self.at_alarm().await,
            }
        }
    }

    /// Runs what calls the application's metrics recorder and tracing subscriber. Their panic ends one batch,
    /// not the queue.
    fn guarded(&mut self, run: impl FnOnce(&mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| run(self))).is_err() {
            // What is left of the turn goes on in the next.
            self.inbox.wake_up.notify_one();
        }
    }

    fn errand(&mut self, errand: Errand) {
        self.errands.push((self.carry)(errand));
    }

    /// Sends what is queued: all commands, and batches while not too many are in flight.
    fn send_queued(&mut self) {
        let patience = self.shared.link.deadline() / PATIENCE;
        loop {
            let passed = self.since_last();
            self.put_off_waiting(passed);
            let mut inbox = self.inbox.content.lock();
            // The task runs: what is queued from here on wakes it again.
            inbox.woken = None;
            let commands = mem::take(&mut inbox.commands);
            let (mut batch, mut due) = (None, None);
            let (calls, oldest) = (self.in_flight.busy(), inbox.waiting.oldest());
            if self.awaits_connection || calls >= MAX_ALL_CALLS {
                due = inbox.waiting.next_deadline();
            } else if calls < MAX_CALLS
                || oldest.is_some_and(|oldest| self.last_ran.saturating_duration_since(oldest) >= patience)
            {
                batch = inbox.waiting.next_batch();
            } else {
                due = oldest.map(|oldest| oldest + patience).min(inbox.waiting.next_deadline());
            }
            drop(inbox);
            self.alarm.set(due);
            for command in commands {
                self.send_command(command);
            }
            let Some(batch) = batch else { return };
            self.send(batch);
        }
    }

    fn send_command(&mut self, command: QueuedCommand) {
        let link = &self.shared.link;
        let connection = self.connections.to(link.owner(command.hash_slot));
        let call = Call::of_command(command.command, command.hash_slot, command.waiter);
        self.send_calls(connection, smallvec![call], 0);
    }

    /// Sends a batch, in parts for each node of a cluster.
    fn send(&mut self, batch: Vec<QueuedRequest>) {
        let shared = Arc::clone(&self.shared);
        let link = &shared.link;
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
    fn send_to(&mut self, node: Option<NodeId>, mut requests: Vec<QueuedRequest>) {
        let shared = Arc::clone(&self.shared);
        let Shared { link, encoder, riders, .. } = &*shared;
        drop_unwanted(&mut requests, self.last_ran, self.round_trip.min(link.deadline() / 2));
        let count = requests.len();
        if count == 0 {
            return;
        }
        let connection = self.connections.to(node);
        if connection.is_none() {
            if let Some(home) = &self.inbox.home {
                let now = self.last_ran;
                return requests.into_iter().for_each(|request| home.push(Queued::Request(request), now));
            }
            // The connection of a cluster serves nodes to which there is none of their own.
            if !link.is_cluster() || link.is_connecting() {
                return self.await_connection(requests);
            }
        }
        // Before the requests, so that these find the units again; over the connection from which they came.
        let is_home = self.connections.is_home();
        let commands =
            if is_home { riders.held.take_give_backs(encoder, link.is_cluster()) } else { Vec::new() };
        let commands = commands.into_iter().map(|command| {
            let hash_slot = link.hash_slot(command.command.keys().first());
            Call::of_command(command, hash_slot, None)
        });
        let new = |requests| Call::of_requests(requests, node, &shared);
        let mut calls = SmallVec::<[Call; 1]>::new();
        if link.is_cluster() {
            // Their keys may be on any node.
            self.send_calls(None, commands.collect(), 0);
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
        let mut calls: SmallVec<[Call; 1]> = calls.into_iter().filter_map(is_open).collect();
        if connection.as_ref().is_some_and(|connection| connection.id.generation != link.present_generation())
        {
            // Made by leases of the connection that has taken its place meanwhile.
            calls.iter_mut().for_each(Call::reroute);
        }
        if connection.is_none()
            && let Some(nodes) = &link.nodes
        {
            nodes.refresh();
        }
        self.send_calls(connection, calls, count);
    }

    /// Sends calls over a connection, or without one each over the connection for single commands.
    fn send_calls(&mut self, connection: Option<Connection>, calls: SmallVec<[Call; 1]>, requests: usize) {
        if calls.is_empty() {
            return;
        }
        let count = calls.len();
        let mut commands = SmallVec::<[Cmd; 1]>::new();
        if let Some(connection) = &connection {
            calls.iter().for_each(|call| call.progress.send_now(connection.id.generation));
            commands.extend(calls.iter().map(|call| call.command.to_cmd()));
        }
        let batch = BatchInFlight::new(calls, requests, self.last_ran, connection.clone());
        let (batch, due) = self.in_flight.add(batch, self.shared.link.deadline());
        self.alarm.set(Some(due));
        let first = CallId { batch, index: 0 };
        match connection {
            Some(connection) => self.errand(Errand::Send { connection, commands, first }),
            None => (0..count).for_each(|index| self.send_alone(CallId { batch, index })),
        }
    }

    /// Sends a call that is in flight over the connection for single commands.
    fn send_alone(&mut self, id: CallId) {
        let shared = Arc::clone(&self.shared);
        if let Some((call, start)) = self.in_flight.get_mut(id) {
            let (progress, range, command) = (Arc::clone(&call.progress), call.range, call.take_command());
            let end = start + shared.link.deadline();
            self.errand(Errand::SendAlone { shared, id, command, range, progress, end });
        }
    }

    /// Sends a call again that certainly did not run.
    fn send_again(&mut self, id: CallId, why: WhyAgain) {
        let shared = Arc::clone(&self.shared);
        let Shared { link, riders, .. } = &*shared;
        let connection = self.in_flight.connection(id.batch);
        if let (WhyAgain::Moved, Some(nodes)) = (why, &link.nodes) {
            nodes.refresh();
            if let Some(connection) = connection.as_ref().filter(|_| self.connections.is_home()) {
                riders.renew(connection.id.node);
            }
        }
        let Some((call, _)) = self.in_flight.get_mut(id).filter(|(call, _)| call.is_wanted()) else {
            // It would charge requests for nothing.
            let ended = self.in_flight.end(id, false);
            return self.finish(ended, Err(CallError::Unavailable));
        };
        let is_unknown = why == WhyAgain::UnknownScript && call.command.is_by_digest();
        if is_unknown {
            call.command = call.take_command().with_text();
        }
        if let Some(connection) = connection.filter(|_| is_unknown || why == WhyAgain::OtherWindows) {
            let command = call.command.to_cmd();
            // Over the same connection, so that the next requests do not overtake it.
            return self.errand(Errand::Send { connection, commands: smallvec![command], first: id });
        }
        call.progress = Arc::default();
        if link.is_cluster() {
            call.reroute();
        }
        self.send_alone(id);
    }

    /// Keeps the requests, in their order, until a connection has been made.
    fn await_connection(&mut self, requests: Vec<QueuedRequest>) {
        let mut inbox = self.inbox.content.lock();
        for request in requests {
            inbox.waiting.push(request);
        }
        drop(inbox);
        if !mem::replace(&mut self.awaits_connection, true) {
            self.errand(Errand::AwaitConnection(Arc::clone(&self.shared)));
        }
    }

    /// Takes all that has ended, before more is sent: what other threads ask meanwhile goes together.
    async fn end_ready(&mut self) {
        while let Poll::Ready(Some(ended)) =
            poll_fn(|context| Poll::Ready(self.errands.poll_next_unpin(context))).await
        {
            self.guarded(|driver| driver.end(ended));
        }
    }

    fn end(&mut self, ended: Ended) {
        match ended {
            Ended::Sent { first, replies } => self.end_calls(first, replies),
            Ended::SentAlone { id, mut command, result } => {
                let Some(result) = result else { return };
                if let Some((call, _)) = self.in_flight.get_mut(id)
                    && let Ok(reply) = &result
                    && call.is_wanted()
                    && call.correct_windows(&mut command, reply)
                {
                    call.command = command;
                    return self.send_alone(id);
                }
                let ended = self.in_flight.end(id, result.is_ok());
                let Some(EndedCall { call, .. }) = &ended else { return };
                let result = result.and_then(|reply| call.decode(reply));
                self.finish(ended, result);
            }
            Ended::Connected(result) => {
                self.awaits_connection = false;
                if let Err(error) = result {
                    let failed = self.inbox.content.lock().waiting.take_all();
                    for QueuedRequest { request, rider, reply, .. } in failed {
                        self.shared.riders.note_not_sent(&rider, &request);
                        send_reply(reply, Err(error.clone()));
                    }
                }
            }
        }
    }

    fn end_calls(&mut self, first: CallId, replies: CallReplies) {
        let connection = self.in_flight.connection(first.batch);
        for (place, reply) in replies.into_iter().enumerate() {
            let is_given_up = connection.as_ref().is_some_and(|connection| connection.server.is_given_up());
            let reply = if is_given_up { Err(not_its_own()) } else { reply };
            self.reply(CallId { index: first.index + place, ..first }, reply);
        }
    }

    /// Takes the reply to a call. If it is not that of the call, the connection is given up.
    fn reply(&mut self, id: CallId, reply: RedisResult<Value>) {
        let shared = Arc::clone(&self.shared);
        let link = &*shared.link;
        if let Err(error) = &reply {
            if error.code() == Some("NOSCRIPT") {
                return self.send_again(id, WhyAgain::UnknownScript);
            }
            if link.is_cluster() && is_redirect(error) {
                return self.send_again(id, WhyAgain::Moved);
            }
        }
        if let Ok(reply) = &reply
            && self.corrects_windows(id, reply)
        {
            return self.send_again(id, WhyAgain::OtherWindows);
        }
        let ended = self.in_flight.end(id, reply.is_ok());
        let Some(EndedCall { call, counts, connection, .. }) = &ended else { return };
        let result = match (reply, connection) {
            (Ok(value), _) => {
                let replies = call.decode(value);
                if replies.is_ok() && *counts {
                    link.record_reply(call.range);
                    link.breaker.record_reply(&self.failures);
                }
                if let (Err(_), Some(connection)) = (&replies, connection) {
                    connection.server.give_up();
                    self.connections.lose(connection.id);
                }
                replies
            }
            (Err(error), Some(connection)) => {
                let was_lost = is_lost(&error);
                if was_lost {
                    self.connections.lose(connection.id);
                }
                // A connection that is lost alone says nothing about the store's.
                let counts = *counts && (link.is_cluster() || self.connections.is_home() || !was_lost);
                Err(if counts {
                    link.record_error(error, connection.id.generation, call.range)
                } else {
                    link.call_error(error)
                })
            }
            (Err(error), None) => Err(link.call_error(error)),
        };
        self.finish(ended, result);
    }

    /// Whether the reply to a call only corrects its calendar windows.
    fn corrects_windows(&mut self, id: CallId, reply: &Value) -> bool {
        // A reply with a decision is longer.
        let is_instant = matches!(reply, Value::BulkString(bytes) if bytes.len() == size_of::<f64>());
        let Some((call, _)) = self.in_flight.get_mut(id).filter(|_| is_instant) else { return false };
        let mut command = call.take_command();
        let is_corrected = call.correct_windows(&mut command, reply);
        call.command = command;
        is_corrected
    }

    /// Gives the requests of a call that has ended their reply.
    fn finish(&mut self, ended: Option<EndedCall>, result: Result<Decoded, CallError>) {
        let Some(EndedCall { call, ends_batch, .. }) = ended else { return };
        if let Some(start) = ends_batch.filter(|_| result.is_ok()) {
            self.round_trip = now().saturating_duration_since(start);
            self.shared.link.observer.replied(self.round_trip);
        }
        call.finish(result);
    }

    /// Reads the clock. Returns how long ago it was read last.
    fn since_last(&mut self) -> Duration {
        let now = now();
        now.saturating_duration_since(mem::replace(&mut self.last_ran, now))
    }

    /// Gives what waits the time back for which nothing could be sent, if that is so long that the process
    /// stood still or another task computed.
    fn put_off_waiting(&self, by: Duration) {
        if is_stall(by) {
            self.inbox.content.lock().put_off(by, self.last_ran);
        }
    }

    /// Puts off an alarm that was missed because the process stood still, or its thread computed; what waits
    /// gets back the time in which nothing could be sent. Returns whether the alarm was missed.
    fn put_off_if_missed(&mut self) -> bool {
        let (since_last, now) = (self.since_last(), self.last_ran);
        // An alarm may have been missed since before the task ran last.
        let late = self.inbox.note_running(now).max(self.alarm.lateness(now)).min(since_last);
        self.put_off_waiting(late);
        self.alarm.put_off_if_missed(now)
    }

    /// Ends what was due when the alarm rang. Replies that have arrived count before deadlines: the runtime
    /// may not have run for a while.
    async fn at_alarm(&mut self) {
        if self.put_off_if_missed() {
            return;
        }
        let rang = self.last_ran;
        self.alarm.clear();
        yield_now().await;
        self.end_ready().await;
        self.alarm.end_grace();
        let passed = self.since_last();
        self.put_off_waiting(passed);
        self.guarded(|driver| driver.end_late(rang));
    }

    fn end_late(&mut self, now: Instant) {
        let shared = Arc::clone(&self.shared);
        let link = &shared.link;
        let late = self.inbox.content.lock().waiting.expired(now);
        let due = self.in_flight.due(now, link);
        // Those that still wait are looked at in the next turn.
        self.alarm.set(self.in_flight.next_due());
        // First, so that the next requests of those that are told, and what waits, meet a circuit breaker
        // that knows.
        for (range, generation) in due.timeouts {
            self.guarded(|_| link.record_timeout(range, generation));
        }
        for connection in due.silent {
            if link.breaker.record_failure(&self.failures, link.breaker.timeout_weight()) {
                // Another may serve: replies to other lanes do not prove this one.
                self.failures.store(0, Ordering::Relaxed);
                connection.server.give_up();
                self.connections.lose(connection.id);
            }
        }
        let late = late.into_iter().map(|request| (request.reply, request.deadline));
        let in_flight = due.requests.into_iter().map(|(reply, deadline)| (Some(reply), deadline));
        for (reply, deadline) in late.chain(in_flight) {
            send_reply(reply, Err(deadline.timeout_error()));
        }
    }
}

fn not_its_own() -> RedisError {
    RedisError::from((ErrorKind::Io, "a reply was not that of its call"))
}

impl<C, F: Future> Drop for Driver<C, F> {
    fn drop(&mut self) {
        self.inbox.close();
    }
}
