//! The queues of a lane: requests and commands wait here for a flush, which sends them.
//!
//! A flush is a task that rests until it is scheduled. Then it runs after all tasks that are ready, and sends
//! the requests that were queued meanwhile as one call. At most eight calls are in flight; requests that come
//! then go into the next. One call decides many requests, in the order in which they were made and at one
//! instant. Single calls would decide the same: the script decides each request after charging the requests
//! before it. Other commands, such as refunds, go before the requests that were queued with them.
//!
//! In a cluster there is a queue for each node. It sends one call per caller, all in one write, because a
//! call for several callers might find their keys on different nodes while a hash slot moves.
//!
//! ```text
//! request   requests and commands that are queued
//! waiting   the contents of a queue, and whether a flush has to take them
//! call      a call, and the channels for its replies
//! lane      connections and queues
//! trip      calls in flight, from their write to their replies
//! ```

mod call;
mod lane;
mod request;
#[cfg(test)]
mod tests;
mod trip;
mod waiting;

use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};

use futures_util::future::join_all;
use smallvec::SmallVec;
use tokio::task::yield_now;

use self::call::Call;
use self::lane::Calls;
pub(super) use self::lane::Lane;
pub(super) use self::request::{Queued, QueuedCommand, QueuedRequest, Replied, ReplySender, first_key};
use self::request::{grouped, send_reply};
use self::trip::carry;
use self::waiting::{Due, Taken, Waiting};
use super::connections::Connection;
use super::error::CallError;
use super::key::StateKey;
use super::link::Link;
use super::shared::Shared;
use super::topology::{NodeId, SLOT_RANGES, range_of_slot};

impl Lane {
    /// Queues a request or a command, in a cluster by the node of its hash slot, or by the hash slot's range
    /// while the node is not known. Drops it if the runtime has ended, which ends the wait for the reply.
    pub(super) fn push(self: &Arc<Self>, queued: Queued) {
        let (hash_slot, is_only) = (queued.hash_slot(), self.queues.len() == 1);
        let place = if is_only { 0 } else { place_of(hash_slot, self.shared.link.owner(hash_slot)) };
        self.push_to(place, queued);
    }

    /// Waits until the store has a connection. The lane of a worker does not wait: it leaves to the store's
    /// lane what it cannot send itself.
    async fn connected(self: &Arc<Self>) -> Result<(), CallError> {
        let link = &self.shared.link;
        if self.of_store.is_some() {
            return Ok(());
        }
        loop {
            link.connected().await?;
            if link.is_cluster() || self.connections.to(NodeId::SINGLE).is_some() {
                return Ok(());
            }
            // The connection was lost before the link was up.
            link.mark_lost(link.present_generation());
            // Lets the supervisor run, which is on this thread.
            yield_now().await;
        }
    }

    /// Ends requests and commands that wait for a connection that is not made in time.
    fn fail(&self, taken: Taken, error: &CallError) {
        for command in taken.commands {
            send_reply(command.reply, Err(error.clone()));
        }
        for request in taken.requests {
            self.shared.attachments.note_not_sent(&request.attachment, &request.request);
            send_reply(request.reply, Err(error.clone()));
        }
    }

    /// Sends what was taken, and handles the replies. All calls are written in the first poll, in their
    /// order.
    async fn send(self: &Arc<Self>, taken: Taken) {
        let mut parts = self.parts_of(taken);
        match (parts.pop(), parts.is_empty()) {
            (Some(only), true) => carry(self, only.connection, only.calls).await,
            (last, _) => {
                let parts = parts.into_iter().chain(last);
                // In a box, because several parts are rare and their future is large.
                Box::pin(join_all(parts.map(|part| carry(self, part.connection, part.calls)))).await;
            }
        }
    }

    /// Makes calls of what was taken, by server. What a worker cannot send goes to the store's lane.
    fn parts_of(self: &Arc<Self>, taken: Taken) -> SmallVec<[Part; 1]> {
        let Shared { link, encoder, attachments, .. } = &*self.shared;
        let Taken { mut commands, requests } = taken;
        if self.of_store.is_none() && !requests.is_empty() {
            // Units of leases are given back before the requests, which may need them.
            for command in attachments.leases.take_give_backs(encoder) {
                let hash_slot = link.hash_slot(command.command.first_key());
                commands.push(QueuedCommand { command, hash_slot, reply: None });
            }
        }
        let mut parts = SmallVec::new();
        for QueuedCommand { command, hash_slot, reply } in commands {
            let call = Call::of_command(command, hash_slot, reply);
            self.part_to(&mut parts, link.owner(hash_slot)).add(call, link);
        }
        for (node, requests) in grouped(requests, |request| link.owner(request.hash_slot)) {
            let part = self.part_to(&mut parts, node);
            if let (None, Some(of_store)) = (&part.connection, &self.of_store) {
                for request in requests {
                    of_store.push(Queued::Request(request));
                }
                continue;
            }
            // What stands for the caller, whose keys are all on one node of a cluster.
            let caller = |request: &QueuedRequest| first_key(&request.request).map(StateKey::hash_tag);
            for (_, requests) in grouped(requests, |request| link.is_cluster().then(|| caller(request))) {
                if let Some(call) = Call::of_requests(requests, node, &self.shared) {
                    part.add(call, link);
                }
            }
        }
        parts
    }

    fn part_to<'p>(
        self: &Arc<Self>,
        parts: &'p mut SmallVec<[Part; 1]>,
        node: Option<NodeId>,
    ) -> &'p mut Part {
        let known = parts.iter().position(|part| part.node == node);
        let place = known.unwrap_or_else(|| {
            let connection = node.and_then(|node| self.connections.to(node));
            parts.push(Part { node, connection, calls: Calls::new() });
            parts.len() - 1
        });
        &mut parts[place]
    }
}

/// Calls to one server. In a cluster the node of a hash slot may not be known, and there may be no connection
/// to it.
struct Part {
    node: Option<NodeId>,
    connection: Option<Connection>,
    calls: Calls,
}

impl Part {
    /// Adds a call, unless it would fail anyway.
    fn add(&mut self, call: Box<Call>, link: &Link) {
        match link.fast_fail(call.range()) {
            Some(error) => call.finish(Err(error)),
            None => self.calls.push(call),
        }
    }
}

/// A lane, as its flushes and calls use it. It is a trait so that a test can explore this code with the locks
/// and threads of a model checker.
trait Queues: Sized {
    /// One step of a queue, under its lock.
    fn step<T>(&self, place: usize, step: impl FnOnce(&mut Waiting) -> T) -> T;

    /// Starts a flush that has been scheduled, or drops it if the runtime has ended.
    fn spawn(&self, flush: Flush<Self>);

    /// Queues in the store's lane what this lane cannot send, or drops it if this is the store's lane.
    fn hand_over(&self, queued: Queued);

    fn push_to(self: &Arc<Self>, place: usize, queued: Queued) {
        match self.step(place, |waiting| waiting.push(queued)) {
            Ok(due) => self.schedule(place, due),
            Err(queued) => self.hand_over(*queued),
        }
    }

    fn schedule(self: &Arc<Self>, place: usize, due: Due) {
        match due {
            Due::Nothing => {}
            Due::Resting(flush) => flush.wake(),
            Due::New => self.spawn(Flush { lane: Arc::downgrade(self), place, carries: None }),
        }
    }

    /// Closes a queue, and hands over what waits in it.
    fn close(&self, place: usize) {
        let waited = self.step(place, Waiting::close);
        // Outside the lock: dropping a request wakes the task that waits for its reply, which may queue
        // another.
        waited.into_queued().for_each(|queued| self.hand_over(queued));
    }
}

impl Queues for Lane {
    fn step<T>(&self, place: usize, step: impl FnOnce(&mut Waiting) -> T) -> T {
        step(&mut self.queues[place].lock())
    }

    fn spawn(&self, flush: Flush<Self>) {
        // In a box: the runtime copies a task's future several times, and this one is large.
        self.connections.runtime().spawn(Box::pin(flush.run()));
    }

    fn hand_over(&self, queued: Queued) {
        if let Some(of_store) = &self.of_store {
            of_store.push(queued);
        }
    }
}

/// A flush of a queue. If its runtime ends before it has taken what waits, the queue closes.
struct Flush<L: Queues> {
    /// Weak, because a flush that rests is kept by its runtime.
    lane: Weak<L>,
    place: usize,
    /// Whether a call of it is in flight; `None` while it rests, or has not taken what waits.
    carries: Option<bool>,
}

impl Flush<Lane> {
    async fn run(mut self) {
        while let Some(lane) = self.lane.upgrade() {
            let connected = lane.connected().await;
            let taken = self.take(&lane, connected.is_err());
            match connected {
                Ok(()) => lane.send(taken).await,
                Err(error) => lane.fail(taken, &error),
            }
            drop(lane);
            poll_fn(|context| self.rest(context.waker())).await;
        }
    }
}

impl<L: Queues> Flush<L> {
    /// Takes what waits, all of it or what may be sent now, and schedules the next flush if something is
    /// left.
    fn take(&mut self, lane: &Arc<L>, all: bool) -> Taken {
        let (mut taken, due) = lane.step(self.place, |waiting| waiting.take(all));
        self.carries = Some(!all && !taken.requests.is_empty());
        lane.schedule(self.place, due);
        // A request whose future was dropped is charged nothing.
        taken.requests.retain(|request| !request.is_abandoned());
        taken
    }

    /// Ends the call, and waits until the flush is scheduled or its lane is gone. If enough others rest, the
    /// flush leaves its lane.
    fn rest(&mut self, waker: &Waker) -> Poll<()> {
        let Some(lane) = self.lane.upgrade() else { return Poll::Ready(()) };
        if let Some(is_call) = self.carries.take() {
            if self.end_call(&lane, is_call, Some(waker.clone())) {
                return Poll::Pending;
            }
            self.lane = Weak::new();
            return Poll::Ready(());
        }
        // A timer that has ended meanwhile may wake it as well.
        let is_same = |resting: &Waker| resting.will_wake(waker);
        let rests = lane.step(self.place, |waiting| waiting.resting.iter().any(is_same));
        if rests { Poll::Pending } else { Poll::Ready(()) }
    }

    fn end_call(&self, lane: &Arc<L>, is_call: bool, waker: Option<Waker>) -> bool {
        let (due, rests) = lane.step(self.place, |waiting| waiting.end_call(is_call, waker));
        lane.schedule(self.place, due);
        rests
    }
}

impl<L: Queues> Drop for Flush<L> {
    fn drop(&mut self) {
        match (self.lane.upgrade(), self.carries) {
            (Some(lane), None) => lane.close(self.place),
            (Some(lane), Some(is_call)) => drop(self.end_call(&lane, is_call, None)),
            (None, _) => {}
        }
    }
}

/// The index of the queue of a hash slot.
fn place_of(hash_slot: u16, node: Option<NodeId>) -> usize {
    node.map_or_else(|| range_of_slot(hash_slot), |node| node.index() % SLOT_RANGES)
}
