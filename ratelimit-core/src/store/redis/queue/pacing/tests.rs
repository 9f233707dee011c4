//! Tests of pacing, over a server that replies when the test says so.

use std::iter;

use super::*;
use crate::policy::Algorithm;
use crate::store::redis::queue::request::tests::{check, check_under, checks};

const INTERVAL: Duration = Duration::from_millis(1);

/// A queue over a server that replies when the test says so.
struct Queue {
    waiting: Waiting,
    /// The calls sent so far, and whether they are in flight.
    calls: Vec<(Vec<QueuedRequest>, bool)>,
    at_once: usize,
    now: Instant,
}

impl Queue {
    /// Over a server nearby.
    fn start() -> Self {
        Self::with_calls_at_once(1)
    }

    fn with_calls_at_once(at_once: usize) -> Self {
        let waiting = Waiting::new();
        Self { now: waiting.last_call, waiting, calls: Vec::new(), at_once }
    }

    fn pace(&self) -> Pace {
        let in_flight = || self.calls.iter().filter(|call| call.1);
        let requests = in_flight().map(|(batch, _)| batch.len()).sum();
        Pace { calls: in_flight().count(), requests, at_once: self.at_once, interval: INTERVAL }
    }

    fn advance(&mut self) {
        while let Some(batch) = self.waiting.next_batch(self.pace(), self.now) {
            self.calls.push((batch, true));
        }
    }

    fn push_all(&mut self, requests: impl IntoIterator<Item = QueuedRequest>) {
        for request in requests {
            self.waiting.push(request);
        }
        self.advance();
    }

    /// Queues this many checks at once.
    fn push(&mut self, count: usize) {
        self.push_all(checks(count).0);
    }

    /// Ends a call.
    fn reply(&mut self, call: usize) {
        assert!(std::mem::take(&mut self.calls[call].1), "a call that is in flight");
        self.advance();
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.advance();
    }

    /// The number of requests of each call sent so far.
    fn sizes(&self) -> Vec<usize> {
        self.calls.iter().map(|(batch, _)| batch.len()).collect()
    }
}

#[test]
fn with_no_call_in_flight_requests_are_sent_at_once() {
    let mut queue = Queue::start();
    queue.push(1);
    assert_eq!(queue.sizes(), [1]);
    queue.reply(0);
    queue.push(7);
    assert_eq!(queue.sizes(), [1, 7], "a rest of fewer than four would wait");
    queue.reply(1);
    queue.push(1);
    assert_eq!(queue.sizes(), [1, 7, 1]);
}

#[test]
fn over_a_network_several_calls_go_at_once_each_with_one_request() {
    let mut queue = Queue::with_calls_at_once(3);
    for sent in 1..=3 {
        queue.push(1);
        assert_eq!(queue.sizes(), vec![1; sent]);
    }
    queue.push(3);
    assert_eq!(queue.sizes(), [1; 3], "three are too few beside three calls");
    queue.reply(1);
    assert_eq!(queue.sizes(), [1, 1, 1, 3], "a call has ended");
    queue.push(4);
    assert_eq!(queue.sizes(), [1, 1, 1, 3, 4], "four are enough");
    queue.push(1);
    queue.reply(0);
    assert_eq!(queue.sizes(), [1, 1, 1, 3, 4], "three calls are in flight");
    queue.reply(2);
    assert_eq!(queue.sizes(), [1, 1, 1, 3, 4, 1], "two were");
}

#[test]
fn over_a_network_twice_as_many_calls_alternate_as_go_at_once() {
    let mut queue = Queue::with_calls_at_once(3);
    queue.push(80);
    assert_eq!(queue.sizes(), [40, 40]);
    queue.push(1);
    assert_eq!(queue.sizes(), [40, 40, 1], "the third call");
    queue.push(15);
    assert_eq!(queue.sizes(), [40, 40, 1], "a fifth of 81 is 16");
    queue.push(1);
    assert_eq!(queue.sizes(), [40, 40, 1, 16]);
}

#[test]
fn requests_wait_for_others_as_soon_as_fewer_calls_go_at_once() {
    let mut queue = Queue::with_calls_at_once(3);
    for _ in 0..3 {
        queue.push(1);
    }
    queue.at_once = 1;
    queue.reply(0);
    queue.push(1);
    assert_eq!(queue.sizes(), [1; 3], "two calls are in flight, and one goes at once");
    let due = queue.waiting.due(queue.pace(), queue.now);
    assert_eq!(due, Some(queue.now + INTERVAL));
    queue.pass(INTERVAL);
    assert_eq!(queue.sizes(), [1; 4], "after the interval");
    assert_eq!(queue.waiting.due(queue.pace(), queue.now), None, "nothing waits");
    queue.push(1);
    queue.at_once = 3;
    queue.reply(1);
    assert_eq!(queue.sizes(), [1; 5]);
}

#[test]
fn two_calls_alternate_each_with_half_of_the_requests() {
    let mut queue = Queue::start();
    queue.push(1);
    queue.push(3);
    assert_eq!(queue.sizes(), [1], "three are too few");
    queue.push(1);
    assert_eq!(queue.sizes(), [1, 4], "four are enough beside one");
    queue.push(4);
    assert_eq!(queue.sizes(), [1, 4], "four are not enough beside five");
    queue.push(1);
    assert_eq!(queue.sizes(), [1, 4, 5]);
    queue.push(60);
    assert_eq!(queue.sizes(), [1, 4, 5, 35], "half of seventy");
    for call in 0..3 {
        queue.reply(call);
    }
    assert_eq!(queue.sizes(), [1, 4, 5, 35], "25 are not enough beside 35");
    queue.push(10);
    assert_eq!(queue.sizes(), [1, 4, 5, 35, 35]);
    queue.push(35);
    queue.reply(3);
    assert_eq!(queue.sizes(), [1, 4, 5, 35, 35, 35]);
}

#[test]
fn a_few_requests_are_sent_after_the_interval_or_the_reply() {
    let mut queue = Queue::start();
    queue.push(20);
    assert_eq!(queue.sizes(), [10, 10]);
    queue.push(2);
    queue.reply(0);
    assert_eq!(queue.sizes(), [10, 10], "ten are in flight");
    queue.pass(INTERVAL);
    assert_eq!(queue.sizes(), [10, 10, 2]);
    queue.push(2);
    queue.reply(1);
    queue.reply(2);
    assert_eq!(queue.sizes(), [10, 10, 2, 2], "nothing is in flight");
}

#[test]
fn requests_that_fill_a_call_are_sent_whatever_is_in_flight() {
    let mut queue = Queue::start();
    queue.push(1000);
    assert_eq!(queue.sizes(), [128; 7], "and 104 wait");
    queue.push(24);
    assert_eq!(queue.sizes(), [128; 8]);
}

#[test]
fn a_call_takes_sixteen_logs() {
    let mut queue = Queue::start();
    let (logs, _replies): (Vec<_>, Vec<_>) =
        (0..64).map(|_| check_under(Algorithm::SlidingWindowLog)).unzip();
    queue.push_all(logs);
    assert_eq!(queue.sizes(), [16; 4]);
}

#[test]
fn a_group_without_limits_is_sent_like_any_other() {
    let mut queue = Queue::start();
    let (mut empty, _reply) = check_under(Algorithm::FixedWindow);
    empty.request.limits.clear();
    queue.push_all([empty]);
    assert_eq!(queue.sizes(), [1]);
}

#[test]
fn a_request_that_weighs_more_than_a_call_goes_alone() {
    let (mut requests, _replies) = checks(2);
    let limit = requests[0].request.limits[0].clone();
    requests[0].request.limits = iter::repeat_n(limit, 2 * MAX_BATCH_WEIGHT).collect();
    let mut queue = Queue::start();
    queue.push_all(requests);
    queue.reply(0);
    assert_eq!(queue.sizes(), [1, 1]);
}

#[test]
fn no_part_of_what_is_split_is_small() {
    for (queued, in_flight, size) in
        [(1, 0, 1), (7, 0, 7), (8, 0, 4), (65, 0, 33), (4, 4, 4), (30, 20, 25), (20, 20, 20), (24, 20, 24)]
    {
        assert_eq!(size_of_next(queued, in_flight), size, "{queued} beside {in_flight}");
    }
}

#[test]
fn requests_are_sent_in_the_order_in_which_they_were_made() {
    let mut queue = Queue::start();
    let start = queue.now;
    let (requests, _replies): (Vec<_>, Vec<_>) = (0..3)
        .rev()
        .map(|millis| {
            let (mut request, reply) = check();
            request.deadline.since = start + Duration::from_millis(millis);
            (request, reply)
        })
        .unzip();
    // As if another thread had queued each before the one that was made earlier.
    queue.push_all(requests);
    let sent: Vec<_> = queue.calls[0].0.iter().map(|request| request.deadline.since).collect();
    assert!(sent.len() == 3 && sent.is_sorted(), "{sent:?}");
}

#[test]
fn at_most_64_calls_are_in_flight() {
    let mut queue = Queue::start();
    queue.push(10_000);
    assert_eq!(queue.sizes(), [128; 64], "the rest waits");
    queue.pass(INTERVAL);
    assert_eq!(queue.sizes().len(), 64);
    assert_eq!(queue.waiting.due(queue.pace(), queue.now), Some(queue.now + MIN_SEND_INTERVAL));
    let rest = queue.waiting.requests.len();
    assert!(queue.waiting.expired(queue.now).is_empty());
    let expired = queue.waiting.expired(queue.now + Duration::from_secs(3_600));
    assert_eq!((expired.len(), queue.waiting.weight), (rest, 0));
}

#[test]
fn an_empty_queue_gives_back_the_room_of_a_spike() {
    let mut queue = Queue::start();
    queue.push(KEPT_ROOM + 1);
    assert!(queue.waiting.requests.capacity() > KEPT_ROOM, "not empty yet");
    queue.pass(INTERVAL);
    assert!(queue.waiting.is_empty() && queue.waiting.requests.capacity() <= KEPT_ROOM);
}
