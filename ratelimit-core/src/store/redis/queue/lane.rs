//! A lane: the connections and queues on one runtime.

use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::call::Call;
use super::waiting::Waiting;
use crate::store::redis::connections::Connections;
use crate::store::redis::shared::Shared;
use crate::store::redis::topology::SLOT_RANGES;

/// Calls that are sent in one write, or that each find their node by themselves.
pub(super) type Calls = SmallVec<[Box<Call>; 1]>;

/// Connections and queues on one runtime with one thread, on which flushes run in the order in which they
/// were scheduled.
pub(in crate::store::redis) struct Lane {
    pub(super) shared: Arc<Shared>,
    pub(in crate::store::redis) connections: Arc<Connections>,
    /// The store's lane takes what the lane of a worker cannot send.
    pub(super) of_store: Option<Arc<Self>>,
    /// A queue, or in a cluster a queue for each node.
    pub(super) queues: Box<[Mutex<Waiting>]>,
}

impl Lane {
    pub(in crate::store::redis) fn new(
        shared: &Arc<Shared>,
        connections: Arc<Connections>,
        of_store: Option<Arc<Self>>,
    ) -> Arc<Self> {
        let size = if shared.link.is_cluster() { SLOT_RANGES } else { 1 };
        let queues = (0..size).map(|_| Mutex::new(Waiting::new(shared.link.deadline()))).collect();
        Arc::new(Self { shared: Arc::clone(shared), connections, of_store, queues })
    }
}

impl Drop for Lane {
    /// Ends the flushes that rest. What waits goes to the store's lane.
    fn drop(&mut self) {
        for queue in &mut self.queues {
            let queue = queue.get_mut();
            queue.resting.drain(..).for_each(Waker::wake);
            let waited = queue.close().into_queued();
            if let Some(of_store) = &self.of_store {
                waited.for_each(|queued| of_store.push(queued));
            }
        }
    }
}
