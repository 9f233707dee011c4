//! The requests that no call has taken yet, and the wake-up of the task that puts the next call together.
//!
//! A channel would wake the task at each request that it waits for. This wakes it once, when enough of them have come.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::mem;
use std::ops::Deref;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

use super::request::{QueuedRequest, weight_of};

/// Requests of one queue, pushed by any thread.
#[derive(Default)]
pub(super) struct Inbox(Mutex<State>);

#[derive(Default)]
struct State {
    requests: VecDeque<QueuedRequest>,
    weight: usize,
    /// The weight that the requests have to reach, and the task that waits for it.
    waiter: Option<(usize, Waker)>,
    /// Whether nothing takes requests any more.
    is_closed: bool,
}

impl Inbox {
    /// Adds a request. Once the reader is gone, drops it, which closes the channel for its reply.
    pub(super) fn push(&self, request: QueuedRequest) {
        let mut state = self.0.lock();
        if state.is_closed {
            return;
        }
        state.weight += request.weight();
        state.requests.push_back(request);
        let weight = state.weight;
        let waiter = state.waiter.take_if(|(enough, _)| weight >= *enough);
        // A woken task may run at once, and takes the lock.
        drop(state);
        if let Some((_, waker)) = waiter {
            waker.wake();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().requests.is_empty()
    }

    /// Weight of all requests together.
    pub(super) fn weight(&self) -> usize {
        self.0.lock().weight
    }

    /// Waits until the requests have at least this weight. One task waits at a time.
    pub(super) async fn holds(&self, weight: usize) {
        poll_fn(|task| {
            let mut state = self.0.lock();
            if state.weight >= weight {
                state.waiter = None;
                return Poll::Ready(());
            }
            match &mut state.waiter {
                Some((enough, waker)) if waker.will_wake(task.waker()) => *enough = weight,
                waiter => *waiter = Some((weight, task.waker().clone())),
            }
            Poll::Pending
        })
        .await;
    }

    /// Takes the oldest requests, until `to` has `most` of them.
    pub(super) fn take(&self, to: &mut Vec<QueuedRequest>, most: usize) {
        let mut state = self.0.lock();
        let count = most.saturating_sub(to.len()).min(state.requests.len());
        let known = to.len();
        to.extend(state.requests.drain(..count));
        state.weight -= weight_of(&to[known..]);
    }
}

/// The one that takes the requests; without it the inbox is closed.
pub(super) struct InboxReader(Arc<Inbox>);

impl InboxReader {
    pub(super) fn new(inbox: &Arc<Inbox>) -> Self {
        Self(Arc::clone(inbox))
    }
}

impl Deref for InboxReader {
    type Target = Inbox;

    fn deref(&self) -> &Inbox {
        &self.0
    }
}

impl Drop for InboxReader {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.is_closed = true;
        let requests = mem::take(&mut state.requests);
        // Dropping a request wakes the task that waits for its reply, which may ask again.
        drop(state);
        drop(requests);
    }
}
