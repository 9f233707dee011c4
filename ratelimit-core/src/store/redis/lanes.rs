//! Lanes: each runtime that asks has connections and queues of its own, so that a request is queued, sent and
//! answered on its runtime.
//!
//! A lane is made in the background when a thread of its runtime asks a second time. Until it has a
//! connection, and for callers without a runtime, there is the *home lane*, that of the store's own thread.
//! It also serves runtimes beyond the bound, those without timers or IO, and what a lane's task does not take
//! in time. What this process remembers of Redis goes over the home lane only, in its order.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use smallvec::smallvec;
use tokio::runtime::{Handle, Id};
use tokio::sync::{Notify, oneshot};
use tokio::task::{AbortHandle, unconstrained};
use tokio::time::{timeout, timeout_at};

use super::command::GuardedCommand;
use super::connections::Connections;
use super::error::CallError;
use super::protocol::{self, LimitArg, Reply, Request};
use super::queue::{
    Home, Inbox, Queue, Queued, QueuedCommand, QueuedRequest, Replied, ReplySender, first_key,
};
use super::riders::Rider;
use super::shared::Shared;
use super::timeouts::reply_by;
use super::topology::{NodeId, SLOT_RANGES, hash_slot_of_tag, range_of_slot};
use crate::algorithm::Operation;
use crate::error::StoreError;
use crate::store::Deadline;
use crate::store::deadline::now;

/// The home lane takes what a lane's task does not take for this part of the deadline, at least
/// [`MIN_PATIENCE`].
const STUCK_AFTER: u32 = 4;
const MIN_PATIENCE: Duration = Duration::from_millis(10);

/// Stores whose lanes a thread knows, besides the one that it asks.
const MOST_KNOWN: usize = 7;

/// Deadline of a message that only tells of slots: it is not dropped when the queue is long.
const NEVER: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The lanes of a store. The length of their queues is bounded by time: no request stays queued beyond its
/// deadline.
pub(super) struct Lanes {
    shared: Arc<Shared>,
    home: Arc<Lane>,
    /// The lanes of other runtimes.
    others: Mutex<HashMap<Id, Arc<Lane>>>,
    /// Largest number of lanes, the home lane counted.
    most: usize,
    /// Wakes [`watch`](Self::watch), which looks at no lane until the next ping if there was none.
    lane_made: Notify,
    /// Tells the lanes of several stores apart in a thread.
    number: u64,
}

/// The connections and queues of one runtime. They end when this is dropped, or with the runtime.
struct Lane {
    shared: Arc<Shared>,
    connections: Arc<Connections>,
    home: Option<Arc<dyn Home>>,
    /// One, or one for each node of a cluster.
    queues: Box<[OnceLock<Queue>]>,
    /// Keeps the lane's place as long as the runtime lives.
    keeper: OnceLock<AbortHandle>,
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.keeper.get().inspect(|keeper| keeper.abort());
    }
}

thread_local! {
    /// For which stores and in which runtime this thread asked last, and by which lane of each.
    static LAST: RefCell<Vec<(u64, Id, Weak<Lane>)>> = const { RefCell::new(Vec::new()) };
}

impl Lanes {
    pub(super) fn start(shared: Arc<Shared>, most: usize) -> Arc<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let home = Lane::new(&shared, shared.runtime.clone(), None);
        Arc::new(Self { shared, home, others: Mutex::default(), most, lane_made: Notify::new(), number })
    }

    /// Watches all lanes. On the store's own runtime, since another may compute, or its clock be paused.
    pub(super) async fn watch(self: Arc<Self>) {
        let timeouts = self.shared.link.timeouts;
        let patience = (timeouts.deadline / STUCK_AFTER).max(MIN_PATIENCE);
        let mut pinged = now();
        loop {
            let interval = if self.others.lock().is_empty() { Duration::MAX } else { patience };
            let _ = timeout(interval.min(timeouts.ping_interval), self.lane_made.notified()).await;
            let now = now();
            let others: Vec<_> = self.others.lock().values().map(Arc::clone).collect();
            for queue in others.iter().flat_map(|lane| lane.queues.iter().filter_map(OnceLock::get)) {
                queue.hand_over_if_stuck(patience, now);
            }
            // So that no connection is found lost by a request.
            if now.saturating_duration_since(pinged) >= timeouts.ping_interval {
                pinged = now;
                let link = &self.shared.link;
                let is_whole = link.is_up() && link.open_ranges().next().is_none();
                let of_lanes: usize = others.iter().map(|lane| lane.connections.open()).sum();
                let serve = if is_whole { 1 + of_lanes } else { 0 };
                // The application's metrics recorder may panic.
                let _ = catch_unwind(AssertUnwindSafe(|| link.observer.serve(serve)));
                others.iter().chain([&self.home]).for_each(|lane| lane.connections.ping());
            }
        }
    }

    /// Ends the lanes of other runtimes, when the store is dropped.
    pub(super) fn end(&self) {
        let others = std::mem::take(&mut *self.others.lock());
        drop(others);
    }

    /// Lanes that have a connection, the home lane counted.
    pub(super) fn connected(&self) -> usize {
        let others = self.others.lock();
        let connected = others.values().filter(|lane| lane.connections.open() > 0);
        usize::from(self.shared.link.is_up()) + connected.count()
    }

    /// The lane of the runtime that asks, if it has a connection to the node and its task runs; otherwise the
    /// home lane.
    fn lane_to(self: &Arc<Self>, hash_slot: u16, node: Option<NodeId>) -> Arc<Lane> {
        let lane =
            Handle::try_current().map_or_else(|_| Arc::clone(&self.home), |handle| self.lane_of(&handle));
        let serves = lane.connections.reach(node) && !lane.queue_of(hash_slot, node).is_stuck();
        if serves { lane } else { Arc::clone(&self.home) }
    }

    fn lane_of(self: &Arc<Self>, runtime: &Handle) -> Arc<Lane> {
        let id = runtime.id();
        let last = LAST.with_borrow(|last| {
            let known = last.iter().find(|(number, of, _)| *number == self.number && *of == id);
            known.map(|(.., lane)| lane.upgrade())
        });
        let lane = match last {
            Some(Some(lane)) => return lane,
            Some(None) => self.find(id, runtime),
            // A runtime may be made for one request, which is not worth a connection.
            None => self.others.lock().get(&id).cloned(),
        };
        LAST.with_borrow_mut(|last| {
            last.retain(|(number, of, _)| *number != self.number && *of == id);
            last.truncate(MOST_KNOWN);
            last.push((self.number, id, lane.as_ref().map_or_else(Weak::new, Arc::downgrade)));
        });
        lane.unwrap_or_else(|| Arc::clone(&self.home))
    }

    #[cold]
    fn find(self: &Arc<Self>, id: Id, runtime: &Handle) -> Option<Arc<Lane>> {
        let mut others = self.others.lock();
        if let Some(lane) = others.get(&id) {
            return Some(Arc::clone(lane));
        }
        if id == self.shared.runtime.id() || 1 + others.len() >= self.most {
            return None;
        }
        let home: Arc<dyn Home> = Arc::clone(&self.home) as _;
        let lane = Lane::new(&self.shared, runtime.clone(), Some(home));
        others.insert(id, Arc::clone(&lane));
        drop(others);
        self.lane_made.notify_one();
        let keeper = runtime.spawn(LaneEntry { lanes: Arc::downgrade(self), id }.keep());
        let _ = lane.keeper.set(keeper.abort_handle());
        Some(lane)
    }

    /// Queues a request whose keys are on one node; the result waits for the reply.
    pub(super) fn submit(
        self: &Arc<Self>,
        request: Request,
        rider: Rider,
        deadline: Deadline,
    ) -> PendingReply {
        let (reply, receiver) = oneshot::channel();
        let inbox = self.push(self.queued(request, rider, deadline, Some(reply)));
        PendingReply { receiver, deadline, inbox }
    }

    /// Queues a request of which only the rider learns the reply.
    pub(super) fn submit_unawaited(self: &Arc<Self>, request: Request, rider: Rider, deadline: Deadline) {
        let _ = self.push(self.queued(request, rider, deadline, None));
    }

    /// Queues a message that only tells of slots. Returns false if there is no connection.
    pub(super) fn tell(self: &Arc<Self>, limit: LimitArg) -> bool {
        self.push(self.queued(message(limit), Rider::Message, Deadline::after(NEVER), None)).is_some()
    }

    fn queued(
        &self,
        request: Request,
        rider: Rider,
        deadline: Deadline,
        reply: Option<ReplySender>,
    ) -> Queued {
        let hash_slot = match first_key(&request) {
            Some(key) if self.shared.link.is_cluster() => hash_slot_of_tag(&key.hash_tag()),
            _ => 0,
        };
        Queued::Request(QueuedRequest { request, hash_slot, deadline, rider, reply })
    }

    /// Sends a command. The result waits until the deadline; the command goes on without it, for the store's
    /// deadline, so that a refund does not depend on the time that is left to a request.
    pub(super) fn send(self: &Arc<Self>, command: GuardedCommand, deadline: Deadline) -> PendingReply {
        let (reply, receiver) = oneshot::channel();
        let hash_slot = self.shared.link.hash_slot(command.command.keys().first());
        let waiter = Some((deadline, reply));
        let inbox = self.push(Queued::Command(QueuedCommand { command, hash_slot, waiter }));
        PendingReply { receiver, deadline, inbox }
    }

    /// Queues in the lane of the runtime that asks; what this process remembers, and all commands, in the
    /// home lane, in their order. Returns the inbox, or `None` if it would fail anyway: then it has.
    fn push(self: &Arc<Self>, mut queued: Queued) -> Option<Arc<Inbox>> {
        let now = now();
        if let Some(deadline) = queued.deadline_mut() {
            deadline.note_queued(now);
        }
        let (Shared { link, process, .. }, hash_slot) = (&*self.shared, queued.hash_slot());
        // A child of the process that has the connections drops a slot that both have. It must not take the
        // lock of a queue, which another thread of the parent may have held at the fork.
        let past = process.is_past().then_some(CallError::Unavailable);
        // Fails here and not on the lane's thread, which may be busy with connecting: TLS takes computing
        // time.
        if let Some(error) = past.or_else(|| link.fast_fail(range_of_slot(hash_slot))) {
            queued.fail(error);
            return None;
        }
        let node = link.owner(hash_slot);
        let lane = if queued.is_ordered() { Arc::clone(&self.home) } else { self.lane_to(hash_slot, node) };
        Some(lane.queue_of(hash_slot, node).push(queued, now))
    }

    /// Sends the commands of riders.
    pub(super) fn send_rider_commands(self: &Arc<Self>) -> Vec<PendingReply> {
        let Shared { link, riders, encoder, .. } = &*self.shared;
        let commands = riders.held.take_give_backs(encoder, link.is_cluster());
        commands.into_iter().map(|command| self.send(command, self.deadline())).collect()
    }

    /// The store's deadline, from now on.
    pub(super) fn deadline(&self) -> Deadline {
        Deadline::after(self.shared.link.deadline())
    }

    /// Tells the server what the process no longer holds, when the store is dropped. Waits no longer than one
    /// deadline.
    pub(super) async fn close(self: &Arc<Self>) {
        let Shared { link, riders, .. } = &*self.shared;
        let deadline = Deadline::after(link.deadline());
        let messages = riders.close();
        let messages =
            messages.into_iter().map(|limit| self.submit(message(limit), Rider::Message, deadline));
        let mut replies: Vec<PendingReply> = messages.collect();
        replies.extend(self.send_rider_commands());
        for reply in replies {
            let _ = timeout_at(deadline.instant().into(), reply.done()).await;
        }
    }
}

/// Where a lane stands among those of its store.
struct LaneEntry {
    lanes: Weak<Lanes>,
    id: Id,
}

impl LaneEntry {
    async fn keep(self) {
        pending::<()>().await;
    }
}

impl Drop for LaneEntry {
    /// The runtime has ended.
    fn drop(&mut self) {
        if let Some(lanes) = self.lanes.upgrade() {
            let gone = lanes.others.lock().remove(&self.id);
            drop(gone);
        }
    }
}

impl Lane {
    fn new(shared: &Arc<Shared>, runtime: Handle, home: Option<Arc<dyn Home>>) -> Arc<Self> {
        let connections = Arc::new(Connections::new(Arc::clone(shared), runtime, home.is_none()));
        let size = if shared.link.is_cluster() { SLOT_RANGES } else { 1 };
        let queues = (0..size).map(|_| OnceLock::new()).collect();
        Arc::new(Self { shared: Arc::clone(shared), connections, home, queues, keeper: OnceLock::new() })
    }

    /// The queue of a hash slot: in a cluster that of the hash slot's node, or of its range while the node is
    /// not known.
    fn queue_of(&self, hash_slot: u16, node: Option<NodeId>) -> &Queue {
        let place = if self.queues.len() == 1 { 0 } else { place_of(hash_slot, node) };
        self.queues[place].get_or_init(|| {
            Queue::start(Arc::clone(&self.shared), Arc::clone(&self.connections), self.home.clone())
        })
    }
}

impl Home for Lane {
    fn push(&self, queued: Queued, since: Instant) {
        let hash_slot = queued.hash_slot();
        self.queue_of(hash_slot, self.shared.link.owner(hash_slot)).push(queued, since);
    }
}

fn place_of(hash_slot: u16, node: Option<NodeId>) -> usize {
    node.map_or_else(|| range_of_slot(hash_slot), |node| node.index() % SLOT_RANGES)
}

/// A request that only tells of slots.
fn message(limit: LimitArg) -> Request {
    Request { operation: Operation::Check, limits: smallvec![limit] }
}

/// A reply that has not arrived yet.
pub(super) struct PendingReply {
    receiver: oneshot::Receiver<Replied>,
    deadline: Deadline,
    /// `None` if it has failed already.
    inbox: Option<Arc<Inbox>>,
}

impl PendingReply {
    /// Waits for the reply to a request.
    pub(super) async fn reply(self) -> Result<Reply, StoreError> {
        let reply = self.replied().await?;
        reply.ok_or_else(|| CallError::Protocol(protocol::EXPECTED).into())
    }

    /// Waits for the end of a command, or of a request.
    pub(super) async fn done(self) -> Result<(), StoreError> {
        self.replied().await.map(drop)
    }

    async fn replied(self) -> Result<Option<Reply>, StoreError> {
        // Tokio stops the waits of a task that has used up its budget until the task yields. A task that
        // blocks its thread never yields.
        let reply = unconstrained(self.receiver);
        let reply = match &self.inbox {
            Some(inbox) => reply_by(self.deadline, &inbox.missed, reply).await,
            None => Ok(reply.await),
        };
        reply.and_then(|reply| reply.unwrap_or(Err(CallError::Unavailable))).map_err(StoreError::from)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::time::advance;

    use super::super::command::Command;
    use super::super::queue::check;
    use super::super::shared::tests::shared;
    use super::*;

    /// The process stands still between the start of a call and the queueing of its request.
    #[tokio::test(start_paused = true)]
    async fn what_is_queued_behind_a_stall_has_the_time_that_it_had_before() {
        let lanes = Lanes::start(shared(&Handle::current()), 1);
        let limit = lanes.deadline().limit();
        let request = |deadline| lanes.submit(check().0.request, Rider::None, deadline);
        let command = |deadline| {
            let command = Command::Delete(smallvec!["key".to_owned()]);
            lanes.send(GuardedCommand { command, guard: Box::new(()) }, deadline)
        };
        let sends: [&dyn Fn(Deadline) -> PendingReply; 2] = [&request, &command];
        for (send, what) in sends.into_iter().zip(["a request", "a command"]) {
            let deadline = lanes.deadline();
            advance(10 * limit).await;
            let mut ended = pin!(send(deadline).done());
            // There is no connection yet.
            let early = timeout(limit * 9 / 10, ended.as_mut()).await;
            assert!(early.is_err(), "{what}: {early:?}");
            let error = timeout(limit, ended).await.expect(what).unwrap_err();
            assert!(matches!(error, StoreError::Timeout { after } if after == limit), "{what}: {error:?}");
        }
    }

    #[test]
    fn slots_of_one_node_share_a_queue() {
        let (one, other) = (0, 16_383);
        assert_ne!(range_of_slot(one), range_of_slot(other));
        let node = |index| Some(NodeId::of(index));
        assert_eq!(place_of(one, node(2)), place_of(other, node(2)));
        assert_ne!(place_of(one, node(2)), place_of(one, node(3)));
        assert_ne!(place_of(one, None), place_of(other, None), "the node is not known");
        assert!(place_of(one, node(64)) < SLOT_RANGES);
    }
}
