//! Pacing: when the next call is sent, and how many requests it takes.
//!
//! Requests are sent at once while fewer than k calls are in flight: k is one for each 100 µs of the round trip, so 1 for a server
//! nearby, and falls to 1 when the server is busy ([`super::distance`]). Beyond that 2 k calls alternate, so that the server decides
//! one while this process handles the replies of another: a call is sent when as many requests are queued as each of the other
//! 2 k - 1 has on average, at least [`MIN_OVERLAP`], and it takes at most half of all. A call is also sent when the requests would
//! fill it, or when the last one was sent longer ago than the interval.

use std::mem;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

use super::in_flight::InFlight;
use super::inbox::InboxReader;
use super::lone::LoneCalls;
use super::request::{QueuedRequest, send_reply};
use super::round_trip::MIN_SEND_INTERVAL;

/// Maximum weight of one call: that of 128 limits, or of 16 logs. Such a call takes the server one or two tenths of a
/// millisecond, with logs one millisecond at most, so that it does not delay other users of the server. A single group
/// that weighs more goes in a call of its own.
const MAX_BATCH_WEIGHT: usize = 128;

/// Fewest requests for a call beyond those that go at once. The fixed part of a call takes the server as long as several requests, so fewer
/// than these wait for the reply to the call in flight.
const MIN_OVERLAP: usize = 4;

/// Maximum number of calls in flight of one queue: enough for 64 * 128 limits. Further requests stay queued until their
/// deadline.
const MAX_IN_FLIGHT: usize = 64;

/// Sends the requests of an inbox for ever. `at_once` is the number of calls that go at once, `interval` the time between two
/// calls beyond these. `send` makes the calls of a batch, each with the number of its requests.
pub(super) async fn run<Calls, Call>(
    mut inbox: InboxReader,
    interval: impl Fn() -> Duration,
    at_once: impl Fn() -> usize,
    send: impl Fn(Vec<QueuedRequest>) -> Calls,
) where
    Calls: IntoIterator<Item = (usize, Call)>,
    Call: Future<Output = ()> + Send + 'static,
{
    let mut calls = InFlight::default();
    // Taken from the inbox, but not sent yet.
    let mut waiting: Vec<QueuedRequest> = Vec::new();
    let mut last_call = Instant::now();
    let mut lone_calls = LoneCalls::new();
    loop {
        let fills_a_call = weight_of(&waiting) >= MAX_BATCH_WEIGHT;
        calls.reap();
        while !calls.is_empty() && !fills_a_call {
            let at_once = at_once();
            let enough = if calls.calls() < at_once { 1 } else { enough_beside(calls.requests(), at_once) };
            if waiting.len() >= enough {
                break;
            }
            let enough_queued = inbox.wait_for(enough - waiting.len());
            let call_ended = calls.end_of_one_before(enough_queued);
            if timeout_at(last_call + interval(), call_ended).await != Ok(true) {
                break;
            }
        }
        // A call ends at the latest deadline of its requests; that of a queued request may be earlier.
        while calls.calls() >= MAX_IN_FLIGHT {
            let _ = timeout_at(Instant::now() + MIN_SEND_INTERVAL, calls.end_of_one()).await;
            inbox.take(&mut waiting, usize::MAX);
            let now = Instant::now();
            for request in waiting.extract_if(.., |request| request.deadline.instant() <= now) {
                send_reply(request.reply, Err(request.deadline.timeout_error()));
            }
        }
        if waiting.is_empty() {
            inbox.wait_for(1).await;
        }
        let remaining = inbox.take(&mut waiting, MAX_BATCH_WEIGHT);
        // In the order in which the requests were made, whichever thread queued first.
        waiting.sort_by_key(|request| request.deadline.since);
        let size = size_of_next(waiting.len() + remaining, calls.requests());
        let batch = take_batch(&mut waiting, size);
        let is_lone = lone_calls.count(batch.len() == 1 && waiting.is_empty() && calls.is_empty());
        last_call = Instant::now();
        for (count, call) in send(batch) {
            // Moved once, and not each time that a task takes it over.
            let call = Box::pin(call);
            if is_lone {
                if let Some(call) = lone_calls.run(call, &mut inbox).await {
                    calls.spawn(call, count);
                }
            } else {
                calls.spawn(call, count);
            }
        }
        if !is_lone {
            // Sends the calls before the next batch is put together.
            yield_now().await;
        }
    }
}

/// The number of queued requests from which a call is sent beside those in flight, if twice as many calls alternate as go
/// at once.
fn enough_beside(in_flight: usize, at_once: usize) -> usize {
    (in_flight / (2 * at_once - 1)).clamp(MIN_OVERLAP, MAX_BATCH_WEIGHT)
}

/// The largest number of requests of the next call: half of all, if the rest is enough for a call of its own.
fn size_of_next(queued: usize, in_flight: usize) -> usize {
    let half = (queued + in_flight).div_ceil(2).max(MIN_OVERLAP);
    if queued < half + MIN_OVERLAP { queued } else { half }
}

fn weight_of(requests: &[QueuedRequest]) -> usize {
    requests.iter().map(QueuedRequest::weight).sum()
}

/// Takes from the front at most `most` requests that fit into one call, at least one.
fn take_batch(waiting: &mut Vec<QueuedRequest>, most: usize) -> Vec<QueuedRequest> {
    let mut weight = 0;
    let fitting = waiting.iter().take(most).take_while(|request| {
        weight += request.weight();
        weight <= MAX_BATCH_WEIGHT
    });
    let size = fitting.count().max(1);
    if size >= waiting.len() {
        return mem::take(waiting);
    }
    waiting.drain(..size).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use tokio::sync::oneshot;

    use super::*;
    use crate::policy::Algorithm;
    use crate::store::redis::queue::inbox::{Inbox, inbox};
    use crate::store::redis::queue::request::tests::{check_under, checks};

    const INTERVAL: Duration = Duration::from_millis(1);

    /// The number of a call's requests, and its end.
    type SentCall = (usize, Option<oneshot::Sender<()>>);

    /// A queue over a server that replies when the test says so. Time stands still, unless a test advances it.
    struct Queue {
        inbox: Inbox,
        /// The calls sent so far.
        calls: Arc<Mutex<Vec<SentCall>>>,
        at_once: Arc<AtomicUsize>,
    }

    impl Queue {
        /// Over a server nearby.
        fn start() -> Self {
            Self::with_calls_at_once(1)
        }

        fn with_calls_at_once(at_once: usize) -> Self {
            let (inbox, reader) = inbox();
            let calls = Arc::new(Mutex::new(Vec::new()));
            let record = Arc::clone(&calls);
            let send = move |batch: Vec<QueuedRequest>| {
                let (end, ended) = oneshot::channel();
                record.lock().unwrap().push((batch.len(), Some(end)));
                [(batch.len(), async move { _ = ended.await })]
            };
            let at_once = Arc::new(AtomicUsize::new(at_once));
            let limit = Arc::clone(&at_once);
            tokio::spawn(run(reader, || INTERVAL, move || limit.load(Ordering::Relaxed), send));
            Self { inbox, calls, at_once }
        }

        /// Queues this many checks, and lets the queue do what it does without time passing.
        async fn push(&self, count: usize) {
            for request in checks(count).0 {
                self.inbox.push(request);
            }
            settle().await;
        }

        /// Ends a call.
        async fn reply(&self, call: usize) {
            let end = self.calls.lock().unwrap()[call].1.take();
            end.expect("a call that is in flight").send(()).unwrap();
            settle().await;
        }

        /// The number of requests of each call sent so far.
        fn sizes(&self) -> Vec<usize> {
            self.calls.lock().unwrap().iter().map(|(size, _)| *size).collect()
        }
    }

    async fn settle() {
        for _ in 0..20 {
            yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn with_no_call_in_flight_requests_are_sent_at_once() {
        let queue = Queue::start();
        queue.push(1).await;
        assert_eq!(queue.sizes(), [1]);
        queue.reply(0).await;
        queue.push(7).await;
        assert_eq!(queue.sizes(), [1, 7], "a rest of fewer than four would wait");
        queue.reply(1).await;
        queue.push(1).await;
        assert_eq!(queue.sizes(), [1, 7, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn over_a_network_several_calls_go_at_once_each_with_one_request() {
        let queue = Queue::with_calls_at_once(3);
        for sent in 1..=3 {
            queue.push(1).await;
            assert_eq!(queue.sizes(), vec![1; sent]);
        }
        queue.push(3).await;
        assert_eq!(queue.sizes(), [1; 3], "three are too few beside three calls");
        queue.reply(1).await;
        assert_eq!(queue.sizes(), [1, 1, 1, 3], "a call has ended");
        queue.push(4).await;
        assert_eq!(queue.sizes(), [1, 1, 1, 3, 4], "four are enough");
        queue.push(1).await;
        queue.reply(0).await;
        assert_eq!(queue.sizes(), [1, 1, 1, 3, 4], "three calls are in flight");
        queue.reply(2).await;
        assert_eq!(queue.sizes(), [1, 1, 1, 3, 4, 1], "two were");
    }

    #[tokio::test(start_paused = true)]
    async fn over_a_network_twice_as_many_calls_alternate_as_go_at_once() {
        let queue = Queue::with_calls_at_once(3);
        queue.push(80).await;
        assert_eq!(queue.sizes(), [40, 40]);
        queue.push(1).await;
        assert_eq!(queue.sizes(), [40, 40, 1], "the third call");
        queue.push(15).await;
        assert_eq!(queue.sizes(), [40, 40, 1], "a fifth of 81 is 16");
        queue.push(1).await;
        assert_eq!(queue.sizes(), [40, 40, 1, 16]);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_wait_for_others_as_soon_as_fewer_calls_go_at_once() {
        let queue = Queue::with_calls_at_once(3);
        for _ in 0..3 {
            queue.push(1).await;
        }
        queue.at_once.store(1, Ordering::Relaxed);
        queue.reply(0).await;
        queue.push(1).await;
        assert_eq!(queue.sizes(), [1; 3], "two calls are in flight, and one goes at once");
        tokio::time::advance(INTERVAL).await;
        settle().await;
        assert_eq!(queue.sizes(), [1; 4], "after the interval");
        queue.push(1).await;
        queue.at_once.store(3, Ordering::Relaxed);
        queue.reply(1).await;
        assert_eq!(queue.sizes(), [1; 5]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fourth_lone_call_waits_for_its_reply_and_for_others() {
        let queue = Queue::start();
        for call in 0..3 {
            queue.push(1).await;
            queue.reply(call).await;
        }
        queue.push(1).await;
        queue.push(3).await;
        assert_eq!(queue.sizes(), [1, 1, 1, 1], "three wait for the reply");
        queue.reply(3).await;
        assert_eq!(queue.sizes(), [1, 1, 1, 1, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn two_calls_alternate_each_with_half_of_the_requests() {
        let queue = Queue::start();
        queue.push(1).await;
        queue.push(3).await;
        assert_eq!(queue.sizes(), [1], "three are too few");
        queue.push(1).await;
        assert_eq!(queue.sizes(), [1, 4], "four are enough beside one");
        queue.push(4).await;
        assert_eq!(queue.sizes(), [1, 4], "four are not enough beside five");
        queue.push(1).await;
        assert_eq!(queue.sizes(), [1, 4, 5]);
        queue.push(60).await;
        assert_eq!(queue.sizes(), [1, 4, 5, 35], "half of seventy");
        for call in 0..3 {
            queue.reply(call).await;
        }
        assert_eq!(queue.sizes(), [1, 4, 5, 35], "25 are not enough beside 35");
        queue.push(10).await;
        assert_eq!(queue.sizes(), [1, 4, 5, 35, 35]);
        queue.push(35).await;
        queue.reply(3).await;
        assert_eq!(queue.sizes(), [1, 4, 5, 35, 35, 35]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_requests_are_sent_after_the_interval_or_the_reply() {
        let queue = Queue::start();
        queue.push(20).await;
        assert_eq!(queue.sizes(), [10, 10]);
        queue.push(2).await;
        queue.reply(0).await;
        assert_eq!(queue.sizes(), [10, 10], "ten are in flight");
        tokio::time::advance(INTERVAL).await;
        settle().await;
        assert_eq!(queue.sizes(), [10, 10, 2]);
        queue.push(2).await;
        queue.reply(1).await;
        queue.reply(2).await;
        assert_eq!(queue.sizes(), [10, 10, 2, 2], "nothing is in flight");
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_fill_a_call_are_sent_whatever_is_in_flight() {
        let queue = Queue::start();
        queue.push(1000).await;
        assert_eq!(queue.sizes(), [128; 7], "and 104 wait");
        queue.push(24).await;
        assert_eq!(queue.sizes(), [128; 8]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_takes_sixteen_logs() {
        let queue = Queue::start();
        let (logs, _replies): (Vec<_>, Vec<_>) =
            (0..64).map(|_| check_under(Algorithm::SlidingWindowLog)).unzip();
        for request in logs {
            queue.inbox.push(request);
        }
        settle().await;
        assert_eq!(queue.sizes(), [16; 4]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_group_without_limits_is_sent_like_any_other() {
        let queue = Queue::start();
        let (mut empty, _reply) = check_under(Algorithm::FixedWindow);
        empty.request.limits.clear();
        queue.inbox.push(empty);
        settle().await;
        assert_eq!(queue.sizes(), [1]);
    }

    #[test]
    fn a_request_that_weighs_more_than_a_call_goes_alone() {
        let (mut waiting, _replies) = checks(2);
        let limit = waiting[0].request.limits[0].clone();
        waiting[0].request.limits = std::iter::repeat_n(limit, 2 * MAX_BATCH_WEIGHT).collect();
        assert_eq!(take_batch(&mut waiting, 2).len(), 1);
        assert_eq!(take_batch(&mut waiting, 2).len(), 1);
    }

    #[test]
    fn no_part_of_what_is_split_is_small() {
        for (queued, in_flight, size) in [
            (1, 0, 1),
            (7, 0, 7),
            (8, 0, 4),
            (65, 0, 33),
            (4, 4, 4),
            (30, 20, 25),
            (20, 20, 20),
            (24, 20, 24),
        ] {
            assert_eq!(size_of_next(queued, in_flight), size, "{queued} beside {in_flight}");
        }
    }
}
