//! The calls of a queue that are in flight, and the number of their requests.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use tokio::task::JoinSet;

/// Calls in flight.
#[derive(Default)]
pub(super) struct InFlight {
    calls: JoinSet<()>,
    requests: Arc<AtomicUsize>,
}

/// The number of one call's requests, taken back when the call ends, also by a panic.
struct Requests {
    all: Arc<AtomicUsize>,
    count: usize,
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.all.fetch_sub(self.count, Ordering::Relaxed);
    }
}

impl InFlight {
    /// Leaves a call about `count` requests to a task.
    pub(super) fn spawn(&mut self, call: Pin<Box<impl Future<Output = ()> + Send + 'static>>, count: usize) {
        self.requests.fetch_add(count, Ordering::Relaxed);
        let requests = Requests { all: Arc::clone(&self.requests), count };
        self.calls.spawn(async move {
            let _requests = requests;
            call.await;
        });
    }

    pub(super) fn calls(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Requests of all calls.
    pub(super) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// Forgets the calls that have ended.
    pub(super) fn reap(&mut self) {
        while self.calls.try_join_next().is_some() {}
    }

    /// Waits for the end of a call.
    pub(super) async fn end_of_one(&mut self) {
        let _ = self.calls.join_next().await;
    }

    /// Waits for the end of a call, or for `other`. Returns whether a call ended.
    pub(super) async fn end_of_one_before(&mut self, other: impl Future<Output = ()>) -> bool {
        let (mut end, mut other) = (pin!(self.end_of_one()), pin!(other));
        poll_fn(|task| {
            if end.as_mut().poll(task).is_ready() {
                return Poll::Ready(true);
            }
            other.as_mut().poll(task).map(|()| false)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn the_requests_of_a_call_count_until_it_ends() {
        let mut calls = InFlight::default();
        let (end, ended) = oneshot::channel::<()>();
        calls.spawn(Box::pin(async move { _ = ended.await }), 20);
        calls.spawn(Box::pin(std::future::pending()), 3);
        assert_eq!((calls.calls(), calls.requests()), (2, 23));
        end.send(()).unwrap();
        calls.end_of_one().await;
        assert_eq!((calls.calls(), calls.requests()), (1, 3));
    }

    #[tokio::test]
    async fn a_call_that_panics_has_ended() {
        let mut calls = InFlight::default();
        calls.spawn(Box::pin(async { panic!("as a subscriber of the application may") }), 20);
        assert!(calls.end_of_one_before(std::future::pending()).await, "the call has ended");
        assert!(calls.is_empty() && calls.requests() == 0);
    }

    #[tokio::test]
    async fn the_wait_for_a_call_ends_with_the_other_future() {
        let mut calls = InFlight::default();
        calls.spawn(Box::pin(std::future::pending()), 20);
        assert!(!calls.end_of_one_before(std::future::ready(())).await);
        assert_eq!(calls.calls(), 1);
    }
}
