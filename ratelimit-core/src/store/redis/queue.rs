//! A queue: the requests of one runtime for one server, which a task of that runtime sends.
//!
//! The task runs behind all tasks that are ready, and sends what was queued meanwhile as one call: a batch is a turn of the runtime. At
//! most [`MAX_CALLS`] calls are in flight; what comes then goes into the next. One call decides many requests, in the order in
//! which they were made and with one reading of the clock. Single calls would decide the same: the script decides each
//! request after charging those before it. Other commands, such as refunds, go before the requests of their turn.
//!
//! A queue of a cluster's node sends one call per caller, all in one write, because a call for several callers might find some of
//! their keys here and some there while a hash slot moves.

mod call;
mod driver;
mod in_flight;
mod request;
mod waiting;

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

pub(super) use self::request::{QueuedRequest, Replied, ReplySender, first_key, send_reply};
use self::waiting::Waiting;
use super::command::GuardedCommand;
use super::connections::Connections;
use super::shared::Shared;
use crate::store::Deadline;

/// Maximum number of calls in flight of one queue. It bounds the rate of calls without a timer: a full server makes round trips longer, so
/// batches grow. Any number from 6 to 12 does, from one runtime to hundreds, at round trips up to 2 ms.
const MAX_CALLS: usize = 8;

/// So long does a request wait for one of these calls, as a part of the store's deadline: then a call goes beside them, so that a round trip
/// above half of the deadline fails no request.
const PATIENCE: u32 = 10;

/// Maximum number of calls in flight all the same. Further requests stay queued until their deadline.
const MAX_ALL_CALLS: usize = 64;

/// A queue.
pub(super) struct Queue {
    shared: Arc<Shared>,
    connections: Arc<Connections>,
    /// Takes the requests and commands of a lane that has no connection. `None` for the home lane, whose requests wait for one.
    home: Option<Arc<dyn Home>>,
    inbox: Mutex<Inbox>,
    /// Wakes the task.
    wake_up: Notify,
    task: OnceLock<AbortHandle>,
}

/// The queue of the home lane for what another lane cannot send.
pub(super) trait Home: Send + Sync {
    /// Queues a request.
    fn push(&self, request: QueuedRequest);

    /// Queues a command.
    fn push_command(&self, command: QueuedCommand);
}

/// A command for keys of a hash slot, and what waits for its end.
pub(super) struct QueuedCommand {
    pub(super) command: GuardedCommand,
    pub(super) hash_slot: u16,
    pub(super) waiter: Option<(Deadline, ReplySender)>,
}

#[derive(Default)]
struct Inbox {
    waiting: Waiting,
    commands: SmallVec<[QueuedCommand; 1]>,
    /// The runtime has ended, so that nothing would end what is queued.
    is_closed: bool,
}

impl Queue {
    /// Starts the task on the runtime of these connections.
    pub(super) fn start(
        shared: Arc<Shared>,
        connections: Arc<Connections>,
        home: Option<Arc<dyn Home>>,
    ) -> Arc<Self> {
        let runtime = connections.runtime().clone();
        let (inbox, wake_up, task) = (Mutex::default(), Notify::new(), OnceLock::new());
        let queue = Arc::new(Self { shared, connections, home, inbox, wake_up, task });
        let task = runtime.spawn(driver::drive(Arc::clone(&queue)));
        let _ = queue.task.set(task.abort_handle());
        queue
    }

    /// Ends the task, and with it what is queued.
    pub(super) fn end(&self) {
        self.task.get().inspect(|task| task.abort());
    }

    /// Adds a request. Drops it if the runtime has ended, which closes the channel for its reply.
    pub(super) fn push(&self, request: QueuedRequest) {
        let mut inbox = self.inbox.lock();
        if inbox.is_closed {
            drop(inbox);
            return drop(request);
        }
        inbox.waiting.push(request);
        drop(inbox);
        self.wake_up.notify_one();
    }

    /// Adds a command, which goes before the requests that are queued.
    pub(super) fn push_command(&self, command: QueuedCommand) {
        let mut inbox = self.inbox.lock();
        if inbox.is_closed {
            drop(inbox);
            return drop(command);
        }
        inbox.commands.push(command);
        drop(inbox);
        self.wake_up.notify_one();
    }
}
