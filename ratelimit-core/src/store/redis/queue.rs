//! Queues and batches: requests that come while as many calls are in flight as go at once go together into the next calls.
//!
//! One call decides many requests, in the order in which they were made and with one reading of the clock. Single calls would
//! decide the same: the script decides each request after charging those before it. (A call whose script the server does not
//! know is sent again, behind the calls that were sent meanwhile.) [`pacing`] decides when a batch is sent. Other commands,
//! such as refunds, wait for no batch.
//!
//! A cluster has one queue per node. A batch has one call per caller, because a call for several callers might find some of
//! their keys here and some there while a hash slot moves. The calls go to the node in one write.

mod call;
mod dispatch;
mod distance;
mod in_flight;
mod pacing;
mod request;

use std::sync::Arc;
use std::time::Duration;

use smallvec::smallvec;
use tokio::sync::oneshot;
use tokio::time::timeout_at;

pub(super) use self::call::Shared;
use self::dispatch::Queue;
use self::request::{QueuedRequest, Replied, ReplySender, first_key, send_reply};
use super::command::GuardedCommand;
use super::error::CallError;
use super::protocol::{self, LimitArg, Reply, Request};
use super::riders::Rider;
use super::topology::{NodeId, SLOT_RANGES, hash_slot_of_tag, range_of_slot};
use crate::algorithm::Operation;
use crate::error::StoreError;
use crate::store::Deadline;

/// Deadline of a message that only tells of slots: it is not dropped when the queue is long.
const NEVER: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The queues of a store. Their length is bounded by time: no request waits longer than its deadline.
pub(super) struct Queues {
    queues: Box<[Arc<Queue>]>,
    shared: Arc<Shared>,
}

impl Queues {
    pub(super) fn start(shared: Arc<Shared>) -> Self {
        let size = if shared.link.is_cluster() { SLOT_RANGES } else { 1 };
        let queues = (0..size).map(|_| Queue::start(Arc::clone(&shared)));
        Self { queues: queues.collect(), shared }
    }

    /// Queues a request whose keys are on one node; the result waits for the reply.
    pub(super) fn submit(&self, request: Request, rider: Rider, deadline: Deadline) -> PendingReply {
        let (reply, receiver) = oneshot::channel();
        let _ = self.push(request, rider, deadline, Some(reply));
        PendingReply(receiver)
    }

    /// Queues a request of which only the rider learns the reply.
    pub(super) fn submit_unawaited(&self, request: Request, rider: Rider, deadline: Deadline) {
        let _ = self.push(request, rider, deadline, None);
    }

    /// Queues a message that only tells of slots. Returns false if there is no connection.
    pub(super) fn tell(&self, limit: LimitArg) -> bool {
        self.push(message(limit), Rider::Message, Deadline::after(NEVER), None)
    }

    fn push(&self, request: Request, rider: Rider, deadline: Deadline, reply: Option<ReplySender>) -> bool {
        let hash_slot = match (self.shared.link.is_cluster(), first_key(&request)) {
            (true, Some(key)) => hash_slot_of_tag(&key.hash_tag()),
            _ => 0,
        };
        // Fails here and not on the connection's thread, which may be busy with connecting: TLS takes computing time.
        if let Some(error) = self.fast_fail(hash_slot) {
            send_reply(reply, Err(error));
            return false;
        }
        self.of_slot(hash_slot).push(QueuedRequest { request, hash_slot, deadline, rider, reply });
        true
    }

    /// Sends a command at once. The result waits until the deadline; the command goes on without it, for the store's deadline, so
    /// that a refund does not depend on the time that is left to a request.
    pub(super) fn send(&self, command: GuardedCommand, deadline: Deadline) -> PendingReply {
        let (reply, receiver) = oneshot::channel();
        let hash_slot = self.shared.link.hash_slot(command.command.keys().first());
        if let Some(error) = self.fast_fail(hash_slot) {
            send_reply(Some(reply), Err(error));
        } else {
            self.of_slot(hash_slot).send_command(command, hash_slot, deadline, reply);
        }
        PendingReply(receiver)
    }

    /// An error in a child of the process that has the connection, where a call would never end; such as for the end of a
    /// slot that both processes have.
    fn fast_fail(&self, hash_slot: u16) -> Option<CallError> {
        if self.shared.process.is_past() {
            return Some(CallError::Unavailable);
        }
        self.shared.link.fast_fail(range_of_slot(hash_slot))
    }

    /// Sends the commands of riders.
    pub(super) fn send_rider_commands(&self) -> Vec<PendingReply> {
        let Shared { link, riders, encoder, .. } = &*self.shared;
        let commands = riders.take_commands(encoder, link.is_cluster());
        commands.into_iter().map(|command| self.send(command, self.deadline())).collect()
    }

    /// The store's deadline, from now on.
    pub(super) fn deadline(&self) -> Deadline {
        Deadline::after(self.shared.link.deadline())
    }

    /// Tells the server what the process no longer holds, when the store is dropped. Waits no longer than one deadline.
    pub(super) async fn close(&self) {
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

    /// The queue of a hash slot in a cluster: that of the hash slot's node, or of its range while the node is not known.
    fn of_slot(&self, hash_slot: u16) -> &Arc<Queue> {
        let link = &self.shared.link;
        &self.queues[if link.is_cluster() { queue_of(hash_slot, link.owner(hash_slot)) } else { 0 }]
    }
}

fn queue_of(hash_slot: u16, node: Option<NodeId>) -> usize {
    node.map_or_else(|| range_of_slot(hash_slot), |node| node.index() % SLOT_RANGES)
}

/// A request that only tells of slots.
fn message(limit: LimitArg) -> Request {
    Request { operation: Operation::Check, limits: smallvec![limit] }
}

/// A reply that has not arrived yet.
pub(super) struct PendingReply(oneshot::Receiver<Replied>);

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
        self.0.await.unwrap_or(Err(CallError::Unavailable)).map_err(StoreError::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_one_node_share_a_queue() {
        let (one, other) = (0, 16_383);
        assert_ne!(range_of_slot(one), range_of_slot(other));
        let node = |index| Some(NodeId::of(index));
        assert_eq!(queue_of(one, node(2)), queue_of(other, node(2)));
        assert_ne!(queue_of(one, node(2)), queue_of(one, node(3)));
        assert_ne!(queue_of(one, None), queue_of(other, None), "the node is not known");
        assert!(queue_of(one, node(64)) < SLOT_RANGES);
    }
}
