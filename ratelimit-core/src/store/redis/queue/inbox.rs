//! The requests that no call has taken yet, and the wake-up of the task that puts the next call together.
//!
//! A channel would wake the task at each request that it waits for. This wakes it once, when enough of them have come.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::mem;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

use super::request::QueuedRequest;

/// Requests for which an empty inbox keeps room. More is the room of a spike.
const KEPT_ROOM: usize = 1024;

/// An inbox, and its receiving end.
pub(super) fn inbox() -> (Inbox, InboxReader) {
    let state = Arc::default();
    (Inbox(Arc::clone(&state)), InboxReader(state))
}

/// Takes requests from any thread.
pub(super) struct Inbox(Arc<Mutex<InboxState>>);

/// The receiving end of an inbox. Dropping it closes the inbox.
pub(super) struct InboxReader(Arc<Mutex<InboxState>>);

#[derive(Default)]
struct InboxState {
    requests: VecDeque<QueuedRequest>,
    /// The number of requests that the task waits for, and its waker.
    waiter: Option<(usize, Waker)>,
    is_closed: bool,
}

impl Inbox {
    /// Adds a request. If the inbox is closed, drops it, which closes the channel for its reply.
    pub(super) fn push(&self, request: QueuedRequest) {
        let mut state = self.0.lock();
        if state.is_closed {
            return;
        }
        state.requests.push_back(request);
        let count = state.requests.len();
        let waiter = state.waiter.take_if(|(enough, _)| count >= *enough);
        // A woken task may run at once, and takes the lock.
        drop(state);
        if let Some((_, waker)) = waiter {
            waker.wake();
        }
    }
}

impl InboxReader {
    /// Waits until there are this many requests.
    pub(super) async fn wait_for(&mut self, count: usize) {
        poll_fn(|task| {
            let mut state = self.0.lock();
            if state.requests.len() >= count {
                state.waiter = None;
                return Poll::Ready(());
            }
            match &mut state.waiter {
                Some((enough, waker)) if waker.will_wake(task.waker()) => *enough = count,
                waiter => *waiter = Some((count, task.waker().clone())),
            }
            Poll::Pending
        })
        .await;
    }

    /// Takes the oldest requests, until `to` has `most` of them. Returns the number of those that remain.
    pub(super) fn take(&mut self, to: &mut Vec<QueuedRequest>, most: usize) -> usize {
        let mut state = self.0.lock();
        let count = most.saturating_sub(to.len()).min(state.requests.len());
        to.extend(state.requests.drain(..count));
        if state.requests.is_empty() && state.requests.capacity() > KEPT_ROOM {
            state.requests = VecDeque::new();
        }
        state.requests.len()
    }
}

impl Drop for InboxReader {
    fn drop(&mut self) {
        let state =
            mem::replace(&mut *self.0.lock(), InboxState { is_closed: true, ..InboxState::default() });
        // Outside the lock: dropping a request wakes the task that waits for its reply, which may ask again.
        drop(state);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;
    use crate::store::redis::queue::request::tests::{check, checks};

    /// Counts how often a task is woken.
    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_task_that_waits_for_requests_is_woken_once_when_there_are_enough() {
        let ((inbox, mut reader), times) = (inbox(), Arc::new(Wakes::default()));
        let waker = Waker::from(Arc::clone(&times));
        let mut task = Context::from_waker(&waker);
        {
            let mut enough = pin!(reader.wait_for(3));
            assert!(enough.as_mut().poll(&mut task).is_pending());
            let (requests, _replies) = checks(5);
            for (pushed, request) in (1..).zip(requests) {
                inbox.push(request);
                assert_eq!(
                    times.0.load(Ordering::Relaxed),
                    usize::from(pushed >= 3),
                    "after {pushed} requests"
                );
            }
            assert!(enough.as_mut().poll(&mut task).is_ready());
        }
        assert!(pin!(reader.wait_for(5)).poll(&mut task).is_ready());
        assert!(pin!(reader.wait_for(6)).poll(&mut task).is_pending());
    }

    #[test]
    fn requests_are_taken_in_their_order_up_to_a_number() {
        let (inbox, mut reader) = inbox();
        let (requests, _replies) = checks(5);
        let order: Vec<_> = requests.iter().map(|request| request.deadline.since).collect();
        for request in requests {
            inbox.push(request);
        }
        let mut taken = Vec::new();
        assert_eq!((reader.take(&mut taken, 2), taken.len()), (3, 2));
        assert_eq!((reader.take(&mut taken, 2), taken.len()), (3, 2), "there were as many already");
        assert_eq!((reader.take(&mut taken, usize::MAX), taken.len()), (0, 5));
        assert_eq!(taken.iter().map(|request| request.deadline.since).collect::<Vec<_>>(), order);
    }

    #[test]
    fn an_empty_inbox_gives_back_the_room_of_a_spike() {
        let (inbox, mut reader) = inbox();
        let (requests, _replies) = checks(KEPT_ROOM + 1);
        for request in requests {
            inbox.push(request);
        }
        let mut taken = Vec::new();
        assert_eq!(reader.take(&mut taken, KEPT_ROOM), 1);
        assert!(inbox.0.lock().requests.capacity() > KEPT_ROOM, "not empty yet");
        assert_eq!(reader.take(&mut taken, usize::MAX), 0);
        assert!(inbox.0.lock().requests.capacity() <= KEPT_ROOM);
    }

    #[test]
    fn without_a_reader_requests_end_instead_of_waiting_for_ever() {
        let (inbox, reader) = inbox();
        let (request, mut earlier) = check();
        inbox.push(request);
        assert_eq!(earlier.try_recv().unwrap_err(), TryRecvError::Empty);
        drop(reader);
        let (request, mut later) = check();
        inbox.push(request);
        assert_eq!(earlier.try_recv().unwrap_err(), TryRecvError::Closed);
        assert_eq!(later.try_recv().unwrap_err(), TryRecvError::Closed);
    }
}
