//! A queue: the requests of one runtime for one server, which a task of that runtime sends.
//!
//! The task runs behind all tasks that are ready, and sends what was queued meanwhile as one call: a batch is
//! a turn of the runtime. At most eight calls are in flight; what comes then goes into the next. One call
//! decides many requests, in the order in which they were made and with one reading of the clock. Single
//! calls would decide the same: the script decides each request after charging those before it. Other
//! commands, such as refunds, go before the requests of their turn.
//!
//! A queue of a cluster's node sends one call per caller, all in one write, because a call for several
//! callers might find some of their keys here and some there while a hash slot moves.

mod alarm;
mod call;
mod driver;
mod in_flight;
mod inbox;
mod request;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

pub(super) use self::inbox::{Home, Inbox};
#[cfg(test)]
pub(super) use self::request::tests::check;
pub(super) use self::request::{Queued, QueuedCommand, QueuedRequest, Replied, ReplySender, first_key};
use super::connections::Connections;
use super::shared::Shared;

/// A queue. Its task ends when this is dropped, or with the runtime.
pub(super) struct Queue {
    inbox: Arc<Inbox>,
    task: AbortHandle,
}

impl Queue {
    /// Starts the task on the runtime of these connections. `home` takes what cannot be sent for want of a
    /// connection; without it, requests wait for one.
    pub(super) fn start(
        shared: Arc<Shared>,
        connections: Arc<Connections>,
        home: Option<Arc<dyn Home>>,
    ) -> Self {
        let (inbox, runtime) = (Arc::new(Inbox::of_lane(home)), connections.runtime().clone());
        let task = runtime.spawn(driver::drive(Arc::clone(&inbox), shared, connections));
        Self { inbox, task: task.abort_handle() }
    }

    /// Adds what is to be sent. `since` is when its caller read the clock; a stall since then is given back.
    /// Drops it if the runtime has ended, which closes the channel for its reply. Returns what tells that the
    /// task has missed its alarm.
    pub(super) fn push(&self, queued: Queued, since: Instant) -> Arc<Inbox> {
        self.inbox.push(queued, since);
        Arc::clone(&self.inbox)
    }

    /// Whether the task has not run for long after it was woken.
    pub(super) fn is_stuck(&self) -> bool {
        self.inbox.is_stuck()
    }

    /// Hands what is queued to the home lane if the task was woken so long ago, and has not run since.
    pub(super) fn hand_over_if_stuck(&self, patience: Duration, now: Instant) {
        self.inbox.hand_over_if_stuck(patience, now);
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.inbox.close();
        self.task.abort();
    }
}
