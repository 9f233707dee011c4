//! Tests of the parts of a queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tokio::sync::oneshot::error::TryRecvError;

use super::*;
use crate::algorithm::Operation;
use crate::check::Check;
use crate::policy::{Algorithm, Policy};
use crate::store::redis::key::KeyFormat;
use crate::store::redis::protocol::LimitArg;

/// Counts how often a task is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A check of one unit under a limit of this algorithm, and the channel for its reply.
fn request(algorithm: Algorithm) -> (QueuedRequest, PendingReply) {
    let policy =
        Policy::builder("user-api").max(10).window(Duration::from_secs(60)).algorithm(algorithm).build();
    let check = Check::new(&policy, "alice");
    let limit = LimitArg::new(KeyFormat::new("rl", "").unwrap().key(&check), &check);
    let request = Request { operation: Operation::Check, limits: [limit].into_iter().collect() };
    let (reply, receiver) = oneshot::channel();
    let deadline = RequestDeadline::after(Duration::from_secs(1));
    (
        QueuedRequest { request, slot: 0, deadline, leases: Box::default(), reply: Some(reply) },
        PendingReply(receiver),
    )
}

/// Requests of weight 1.
fn counters(number: usize) -> (Vec<QueuedRequest>, Vec<PendingReply>) {
    (0..number).map(|_| request(Algorithm::SlidingWindowCounter)).unzip()
}

#[test]
fn a_task_that_waits_for_a_weight_is_woken_once_when_the_requests_have_it() {
    let (inbox, wakes) = (Inbox::default(), Arc::new(Wakes::default()));
    let waker = Waker::from(Arc::clone(&wakes));
    let mut task = Context::from_waker(&waker);
    let mut holds = pin!(inbox.holds(3));
    assert!(holds.as_mut().poll(&mut task).is_pending());
    let (requests, _replies) = counters(5);
    for (pushed, request) in (1..).zip(requests) {
        inbox.push(request);
        assert_eq!(wakes.0.load(Ordering::Relaxed), usize::from(pushed >= 3), "after {pushed} requests");
    }
    assert!(holds.as_mut().poll(&mut task).is_ready());
    assert!(pin!(inbox.holds(5)).poll(&mut task).is_ready());
    assert!(pin!(inbox.holds(6)).poll(&mut task).is_pending());
}

#[test]
fn a_log_weighs_as_much_as_eight_counters_and_no_limit_as_much_as_one() {
    let inbox = Inbox::default();
    let (log, _reply) = request(Algorithm::SlidingWindowLog);
    inbox.push(log);
    assert_eq!(inbox.weight(), 8);
    let (mut empty, _reply) = request(Algorithm::SlidingWindowCounter);
    empty.request.limits.clear();
    inbox.push(empty);
    assert_eq!(inbox.weight(), 9, "otherwise a task that waits for any request would not see it");
}

#[test]
fn requests_are_taken_in_their_order_up_to_a_number() {
    let inbox = Inbox::default();
    let (requests, _replies) = counters(5);
    let order: Vec<_> = requests.iter().map(|request| request.deadline.since).collect();
    requests.into_iter().for_each(|request| inbox.push(request));
    let mut taken = Vec::new();
    inbox.take(&mut taken, 2);
    assert_eq!((taken.len(), inbox.weight()), (2, 3));
    inbox.take(&mut taken, 2);
    assert_eq!((taken.len(), inbox.weight()), (2, 3), "there were as many already");
    inbox.take(&mut taken, usize::MAX);
    assert!(inbox.is_empty() && inbox.weight() == 0);
    assert_eq!(taken.iter().map(|request| request.deadline.since).collect::<Vec<_>>(), order);
}

#[test]
fn without_a_reader_requests_end_instead_of_waiting_for_ever() {
    let inbox = Arc::new(Inbox::default());
    let reader = InboxReader::new(&inbox);
    let (queued, mut earlier) = request(Algorithm::SlidingWindowCounter);
    inbox.push(queued);
    assert_eq!(earlier.0.try_recv().unwrap_err(), TryRecvError::Empty);
    drop(reader);
    let (queued, mut later) = request(Algorithm::SlidingWindowCounter);
    inbox.push(queued);
    assert_eq!(earlier.0.try_recv().unwrap_err(), TryRecvError::Closed);
    assert_eq!(later.0.try_recv().unwrap_err(), TryRecvError::Closed);
}

#[test]
fn a_batch_takes_requests_up_to_its_weight_and_at_least_one() {
    let (mut waiting, _replies) = counters(10);
    assert_eq!(take_batch(&mut waiting, 4).len(), 4);
    assert_eq!(take_batch(&mut waiting, 6).len(), 6);
    assert!(waiting.is_empty());
    let (log, _reply) = request(Algorithm::SlidingWindowLog);
    waiting.push(log);
    assert_eq!(take_batch(&mut waiting, 4).len(), 1, "one request is never split");
}

#[tokio::test]
async fn another_call_is_sent_when_as_much_is_queued_as_is_in_flight() {
    let mut calls = InFlight::default();
    assert_eq!(calls.weight_for_another(), 4, "few requests are not split");
    let (end, ended) = oneshot::channel::<()>();
    calls.spawn(async move { _ = ended.await }, 20);
    assert_eq!((calls.len(), calls.weight_for_another()), (1, 20));
    calls.spawn(std::future::pending(), 300);
    assert_eq!((calls.len(), calls.weight_for_another()), (2, MAX_BATCH_WEIGHT), "or when it fills a call");
    end.send(()).unwrap();
    calls.end_of_one().await;
    assert_eq!((calls.len(), calls.weight()), (1, 300));
}

#[tokio::test]
async fn a_call_takes_half_of_what_is_queued_and_in_flight() {
    let mut calls = InFlight::default();
    assert_eq!(calls.weight_of_next(1), 4, "few requests are not split");
    assert_eq!(calls.weight_of_next(65), 33);
    calls.spawn(std::future::pending(), 20);
    assert_eq!(calls.weight_of_next(30), 25);
    assert_eq!(calls.weight_of_next(1000), MAX_BATCH_WEIGHT);
}

#[tokio::test]
async fn a_call_that_panics_is_no_longer_in_flight() {
    let mut calls = InFlight::default();
    calls.spawn(async { panic!("as a subscriber of the application may") }, 20);
    let is_full = std::future::pending();
    assert!(calls.end_of_one_before(is_full).await, "the call has ended");
    assert!(calls.is_empty() && calls.weight() == 0);
}

#[tokio::test]
async fn the_wait_for_a_call_ends_when_enough_is_queued() {
    let mut calls = InFlight::default();
    calls.spawn(std::future::pending(), 20);
    assert!(!calls.end_of_one_before(std::future::ready(())).await);
    assert_eq!(calls.len(), 1);
}
