//! Lanes: the store's lane on its own thread, and a lane for each worker.
//!
//! A worker is a runtime with one thread that runs while its calls wait, as in an Actix server; its calls say
//! that they come from a worker. A plain check of a worker is queued, sent and answered on the worker's
//! thread. Everything else goes over the store's lane: calls of any other runtime, and requests about leases,
//! slots and turns, which this process keeps in memory and whose order matters. The store's lane also takes
//! the requests of a worker's lane that has no connection.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use smallvec::smallvec;
use tokio::runtime::{Handle, Id, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::attachments::Attachment;
use super::command::GuardedCommand;
use super::connections::Connections;
use super::error::CallError;
use super::protocol::{self, LimitArg, Reply, Request};
use super::queue::{Lane, Queued, QueuedCommand, QueuedRequest, Replied, ReplySender, first_key};
use super::shared::Shared;
use super::timeouts::reply_by;
use super::topology::{hash_slot_of_tag, range_of_slot};
use crate::algorithm::Operation;
use crate::check::Check;
use crate::error::StoreError;
use crate::outcome::GroupOutcome;
use crate::store::Deadline;
use crate::store::deadline::now;

/// Number of other stores whose lanes a thread remembers, besides the store that it used last.
const MOST_KNOWN: usize = 7;

/// The lanes of a store. The length of their queues is bounded by time: calls in flight end within a
/// deadline, and then a flush drops requests whose wait has ended.
pub(super) struct Lanes {
    pub(super) shared: Arc<Shared>,
    /// The lane of the store's own thread.
    of_store: Arc<Lane>,
    workers: Mutex<HashMap<Id, Worker>>,
    /// Largest number of lanes, with the store's.
    most: usize,
    /// Distinguishes the lanes of several stores in a thread.
    number: u64,
}

/// The lane of a worker.
struct Worker {
    lane: Arc<Lane>,
    /// Task that removes the lane when the runtime ends.
    keeper: Option<AbortHandle>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.keeper.iter().for_each(AbortHandle::abort);
    }
}

thread_local! {
    /// The lanes that this thread used last: number of the store, runtime, and lane.
    static LAST: RefCell<Vec<(u64, Id, Weak<Lane>)>> = const { RefCell::new(Vec::new()) };
}

impl Lanes {
    pub(super) fn new(shared: Arc<Shared>, connections: Arc<Connections>, most: usize) -> Arc<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let of_store = Lane::new(&shared, connections, None);
        Arc::new(Self { shared, of_store, workers: Mutex::default(), most, number })
    }

    /// Pings the connections of all lanes at the ping interval, so that no request finds a lost connection.
    pub(super) async fn keep_alive(self: Arc<Self>) {
        let link = &self.shared.link;
        loop {
            sleep(link.timeouts.ping_interval).await;
            let workers = self.lanes_of_workers();
            let is_whole = link.is_up() && link.open_ranges().next().is_none();
            let of_workers: usize = workers.iter().map(|lane| lane.connections.open()).sum();
            let serve = if is_whole { 1 + of_workers } else { 0 };
            link.observer.serve(serve);
            workers.iter().chain([&self.of_store]).for_each(|lane| lane.connections.ping());
        }
    }

    fn lanes_of_workers(&self) -> Vec<Arc<Lane>> {
        self.workers.lock().values().map(|worker| Arc::clone(&worker.lane)).collect()
    }

    /// Ends the lanes of workers, when the store is dropped.
    pub(super) fn end(&self) {
        let workers = std::mem::take(&mut *self.workers.lock());
        drop(workers);
    }

    /// Number of lanes that have a connection, with the store's.
    pub(super) fn connected(&self) -> usize {
        let workers = self.lanes_of_workers();
        let connected = workers.iter().filter(|lane| lane.connections.open() > 0);
        usize::from(self.shared.link.is_up()) + connected.count()
    }

    /// The lane of the worker whose runtime this is.
    fn of_worker(self: &Arc<Self>) -> Option<Arc<Lane>> {
        let runtime = Handle::try_current().ok()?;
        let last = LAST.with_borrow(|last| {
            let known = last.iter().find(|(number, of, _)| *number == self.number && *of == runtime.id());
            known.and_then(|(.., lane)| lane.upgrade())
        });
        last.or_else(|| self.find(&runtime))
    }

    #[cold]
    fn find(self: &Arc<Self>, runtime: &Handle) -> Option<Arc<Lane>> {
        if self.most <= 1 {
            return None;
        }
        let worker = runtime.id();
        let mut workers = self.workers.lock();
        let lane = if let Some(known) = workers.get(&worker) {
            Arc::clone(&known.lane)
        } else {
            // Another kind of runtime may write calls in another order, and move tasks between threads.
            if runtime.runtime_flavor() != RuntimeFlavor::CurrentThread || 1 + workers.len() >= self.most {
                return None;
            }
            let connections = Connections::of_worker(&self.of_store.connections, runtime.clone());
            let lane = Lane::new(&self.shared, connections, Some(Arc::clone(&self.of_store)));
            workers.insert(worker, Worker { lane: Arc::clone(&lane), keeper: None });
            drop(workers);
            let entry = WorkerEntry { lanes: Arc::downgrade(self), id: worker };
            // Not under the lock: a runtime that is ending drops the task at once, which takes the lock.
            let keeper = runtime.spawn(entry.keep()).abort_handle();
            workers = self.workers.lock();
            workers.get_mut(&worker)?.keeper = Some(keeper);
            lane
        };
        drop(workers);
        LAST.with_borrow_mut(|last| {
            last.retain(|(number, of, _)| *number != self.number && *of == worker);
            last.truncate(MOST_KNOWN);
            last.push((self.number, worker, Arc::downgrade(&lane)));
        });
        Some(lane)
    }

    /// Queues a request whose keys are on one node, of a worker or of any caller. The result waits for the
    /// reply. If no time is left, the request is not sent.
    pub(super) fn submit(
        self: &Arc<Self>,
        request: Request,
        attachment: Attachment,
        deadline: &mut Deadline,
        by_worker: bool,
    ) -> PendingReply {
        let (reply, receiver) = oneshot::channel();
        let now = now();
        if !deadline.extend_once(now) {
            let _ = reply.send(Err(deadline.timeout_error()));
            return PendingReply(receiver);
        }
        let by_worker = by_worker && matches!(attachment, Attachment::None);
        self.push(self.queued(request, attachment, now, Some(reply)), by_worker);
        PendingReply(receiver)
    }

    /// Queues a request of which only the attachment learns the reply.
    pub(super) fn submit_unawaited(self: &Arc<Self>, request: Request, attachment: Attachment) {
        self.push(self.queued(request, attachment, now(), None), false);
    }

    /// Queues a message that only reports slots. Returns false if there is no connection.
    pub(super) fn report(self: &Arc<Self>, limit: LimitArg) -> bool {
        self.push(self.queued(message(limit), Attachment::Message, now(), None), false)
    }

    fn queued(
        &self,
        request: Request,
        attachment: Attachment,
        since: u64,
        reply: Option<ReplySender>,
    ) -> Queued {
        let hash_slot = match first_key(&request) {
            Some(key) if self.shared.link.is_cluster() => hash_slot_of_tag(&key.hash_tag()),
            _ => 0,
        };
        Queued::Request(QueuedRequest { request, hash_slot, since, attachment, reply })
    }

    /// Sends a command. It goes on if the result is dropped, so that a refund does not depend on the time
    /// that is left to a request.
    pub(super) fn send(self: &Arc<Self>, command: GuardedCommand) -> PendingReply {
        let (reply, receiver) = oneshot::channel();
        let hash_slot = self.shared.link.hash_slot(command.command.first_key());
        let queued = QueuedCommand { command, hash_slot, reply: Some(reply) };
        self.push(Queued::Command(queued), false);
        PendingReply(receiver)
    }

    /// Queues in the lane of this worker, or in the store's lane. Returns false if the request would fail
    /// anyway: then it has failed.
    fn push(self: &Arc<Self>, queued: Queued, by_worker: bool) -> bool {
        // Fails here and not on the lane's thread, which may be busy with connecting: TLS takes computing
        // time.
        if let Some(error) = self.shared.link.fast_fail(range_of_slot(queued.hash_slot())) {
            queued.fail(error);
            return false;
        }
        let worker = if by_worker { self.of_worker() } else { None };
        worker.as_ref().unwrap_or(&self.of_store).push(queued);
        true
    }

    /// Sends the commands that give units of leases back.
    pub(super) fn send_give_backs(self: &Arc<Self>) -> Vec<PendingReply> {
        let Shared { attachments, encoder, .. } = &*self.shared;
        let commands = attachments.leases.take_give_backs(encoder);
        commands.into_iter().map(|command| self.send(command)).collect()
    }

    /// Reports slots as freed, and gives back unused units of leases, when the store is dropped. Waits at
    /// most for one deadline and its grace.
    pub(super) async fn close(self: &Arc<Self>) {
        let Shared { link, attachments, .. } = &*self.shared;
        let mut deadline = Deadline::after(link.deadline());
        let messages = attachments.close();
        let messages = messages
            .into_iter()
            .map(|limit| self.submit(message(limit), Attachment::Message, &mut deadline, false));
        let mut replies: Vec<PendingReply> = messages.collect();
        replies.extend(self.send_give_backs());
        for mut reply in replies {
            let _ = reply.done(&mut deadline).await;
        }
    }
}

/// The entry of a worker's lane among the lanes of its store.
struct WorkerEntry {
    lanes: Weak<Lanes>,
    id: Id,
}

impl WorkerEntry {
    async fn keep(self) {
        pending::<()>().await;
    }
}

impl Drop for WorkerEntry {
    /// The runtime has ended.
    fn drop(&mut self) {
        if let Some(lanes) = self.lanes.upgrade() {
            let gone = lanes.workers.lock().remove(&self.id);
            drop(gone);
        }
    }
}

/// A request that only reports slots.
fn message(limit: LimitArg) -> Request {
    Request { operation: Operation::Check, limits: smallvec![limit] }
}

/// A reply that has not arrived yet.
pub(super) struct PendingReply(oneshot::Receiver<Replied>);

impl PendingReply {
    /// Waits for the reply to a request about this group.
    pub(super) async fn outcome(
        &mut self,
        group: &[Check<'_>],
        deadline: &mut Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        let reply = self.replied(deadline).await?;
        reply.ok_or(CallError::Protocol(protocol::EXPECTED))?.claim(group)
    }

    /// Waits for the end of a command, or of a request.
    pub(super) async fn done(&mut self, deadline: &mut Deadline) -> Result<(), StoreError> {
        self.replied(deadline).await.map(drop)
    }

    async fn replied(&mut self, deadline: &mut Deadline) -> Result<Option<Reply>, StoreError> {
        let reply = reply_by(deadline, &mut self.0).await.ok_or_else(|| deadline.timeout_error())?;
        Ok(reply.unwrap_or(Err(CallError::Unavailable))?)
    }
}
