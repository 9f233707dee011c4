//! The calls of a queue that are in flight, and what follows from their weight for the next call.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use tokio::task::JoinSet;

use super::MAX_BATCH_WEIGHT;

/// Below this weight requests wait for the reply to the call in flight: sent beside it, they would take two small calls where
/// one is cheaper.
const MIN_OVERLAP_WEIGHT: usize = 4;

/// Calls in flight.
#[derive(Default)]
pub(super) struct InFlight {
    calls: JoinSet<()>,
    weight: Arc<AtomicUsize>,
}

/// Weight of one call, taken back when the call ends, also by a panic.
struct CallWeight {
    all: Arc<AtomicUsize>,
    weight: usize,
}

impl Drop for CallWeight {
    fn drop(&mut self) {
        self.all.fetch_sub(self.weight, Ordering::Relaxed);
    }
}

impl InFlight {
    /// Sends a call whose requests have this weight.
    pub(super) fn spawn(&mut self, call: impl Future<Output = ()> + Send + 'static, weight: usize) {
        self.weight.fetch_add(weight, Ordering::Relaxed);
        let weight = CallWeight { all: Arc::clone(&self.weight), weight };
        self.calls.spawn(async move {
            let _weight = weight;
            call.await;
        });
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The weight that queued requests have to reach for another call beside those in flight.
    pub(super) fn weight_for_another(&self) -> usize {
        self.weight().clamp(MIN_OVERLAP_WEIGHT, MAX_BATCH_WEIGHT)
    }

    /// The largest weight of the next call, if requests of the weight `queued` wait: half of all, so that two calls alternate.
    pub(super) fn weight_of_next(&self, queued: usize) -> usize {
        (self.weight() + queued).div_ceil(2).clamp(MIN_OVERLAP_WEIGHT, MAX_BATCH_WEIGHT)
    }

    /// Weight of the requests of all calls.
    pub(super) fn weight(&self) -> usize {
        self.weight.load(Ordering::Relaxed)
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
