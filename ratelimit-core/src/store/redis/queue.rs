//! Queues and batches: requests that come while as many calls are in flight as go at once go together into the next calls.
//!
//! One call decides many requests, in the order in which they were made and with one reading of the clock. Single calls would
//! decide the same: the script decides each request after charging those before it. (A call whose script the server does not
//! know is sent again, behind the calls that were sent meanwhile.) [`pacing`] decides when a batch is sent.
//!
//! A cluster has one queue per node. A batch has one call per caller, because a call for several callers might find some of
//! their keys here and some there while a slot moves. The calls go to the node in one write.

mod again;
mod alarm;
mod call;
mod dispatch;
mod distance;
mod in_flight;
mod pacing;
mod request;
mod round_trip;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use smallvec::smallvec;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use self::dispatch::Queue;
use self::request::{QueuedRequest, ReplySender, first_key, send_reply};
use super::error::CallError;
use super::lease::{LeaseTarget, Leases};
use super::link::Link;
use super::protocol::{Encoder, LimitArg, Reply, Request};
use super::slots::SlotTable;
use super::topology::{NodeId, SLOT_RANGES, range_of_slot, slot_of_tag};
use crate::algorithm::Operation;
use crate::error::StoreError;
use crate::store::Deadline;

/// Deadline of a message that only tells of slots: it is not dropped when the queue is long.
const NEVER: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// What the queues of a store share.
pub(super) struct Shared {
    pub(super) link: Arc<Link>,
    /// That of the connection's thread.
    pub(super) runtime: Handle,
    pub(super) encoder: Arc<Encoder>,
    pub(super) leases: Arc<Leases>,
    pub(super) slots: Arc<SlotTable>,
    /// Whether the thread that asks sends its request. Not over TLS, where calls go through the connection's thread.
    pub(super) is_direct: bool,
}

/// The queues of a store. Their length is bounded by time: no request waits longer than its deadline.
pub(super) struct Queues {
    queues: Box<[Arc<Queue>]>,
    shared: Arc<Shared>,
}

impl Queues {
    pub(super) fn start(shared: Shared) -> Self {
        let shared = Arc::new(shared);
        let size = if shared.link.is_cluster() { SLOT_RANGES } else { 1 };
        let queues = (0..size).map(|_| Queue::start(Arc::clone(&shared)));
        Self { queues: queues.collect(), shared }
    }

    /// Queues a request whose keys are on one node; the result waits for the reply.
    pub(super) fn submit(
        &self,
        request: Request,
        leases: Box<[LeaseTarget]>,
        deadline: Deadline,
    ) -> PendingReply {
        let (reply, receiver) = oneshot::channel();
        let _ = self.push(request, leases, deadline, Some(reply));
        PendingReply(receiver)
    }

    /// Queues a message that only tells of slots. Returns false if there is no connection.
    pub(super) fn tell(&self, limit: LimitArg) -> bool {
        let request = Request { operation: Operation::Check, limits: smallvec![limit] };
        self.push(request, Box::default(), Deadline::after(NEVER), None)
    }

    /// Queues a lease that is fetched in the background.
    pub(super) fn prefetch(&self, request: Request, target: LeaseTarget, deadline: Deadline) {
        let _ = self.push(request, Box::new([target]), deadline, None);
    }

    fn push(
        &self,
        request: Request,
        leases: Box<[LeaseTarget]>,
        deadline: Deadline,
        reply: Option<ReplySender>,
    ) -> bool {
        let link = &self.shared.link;
        let slot = match (&link.nodes, first_key(&request)) {
            (Some(_), Some(key)) => slot_of_tag(&key.hash_tag()),
            _ => 0,
        };
        // Fails here and not on the thread, which may be busy with connecting: TLS takes computing time.
        if let Some(error) = link.fast_fail(range_of_slot(slot)) {
            send_reply(reply, Err(error));
            false
        } else {
            let queued = QueuedRequest { request, slot, deadline, leases, reply };
            let nodes = link.nodes.as_ref();
            let queue = nodes.map_or(0, |nodes| queue_of(slot, nodes.owner(slot).map(NodeId::index)));
            self.queues[queue].push(queued);
            true
        }
    }
}

/// The queue of a slot in a cluster: that of the slot's node, or of its range while the node is not known.
fn queue_of(slot: u16, node: Option<usize>) -> usize {
    node.map_or_else(|| range_of_slot(slot), |node| node % SLOT_RANGES)
}

/// A reply that has not arrived yet.
pub(super) struct PendingReply(oneshot::Receiver<Result<Reply, CallError>>);

impl PendingReply {
    pub(super) async fn reply(self) -> Result<Reply, StoreError> {
        self.0.await.unwrap_or(Err(CallError::Unavailable)).map_err(StoreError::from)
    }
}
