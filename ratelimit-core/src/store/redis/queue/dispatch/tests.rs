//! Tests of queues without a server.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use redis::{ErrorKind, RedisError};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot::{self, Receiver};
use tokio::time::{pause, sleep, timeout};

use super::super::request::Replied;
use super::super::request::tests::{check, check_of};
use super::*;
use crate::clock::{Clock, FakeClock};
use crate::policy::Algorithm;
use crate::process::Process;
use crate::store::redis::breaker::Breaker;
use crate::store::redis::denial_cache::DenialCache;
use crate::store::redis::key::KeyFormat;
use crate::store::redis::link::Link;
use crate::store::redis::link::tests::connect;
use crate::store::redis::protocol::Encoder;
use crate::store::redis::riders::Riders;
use crate::store::redis::timeouts::tests::TIMEOUTS;

/// A queue of a store that is making its first connection. With `is_direct` the thread that asks sends.
fn connecting(runtime: &Handle, is_direct: bool) -> Arc<Queue> {
    let clock: Arc<dyn Clock> = Arc::new(FakeClock::default());
    let denials = Arc::new(DenialCache::new(Arc::clone(&clock), Duration::ZERO));
    Queue::start(Arc::new(Shared {
        link: Arc::new(Link::new(None, TIMEOUTS, Breaker::new(), Vec::new())),
        runtime: runtime.clone(),
        encoder: Arc::new(Encoder::new(KeyFormat::new("rl", "").unwrap(), Box::new(|| None))),
        riders: Riders::new(&clock, 0, false, &denials),
        is_direct,
        process: Process::present(),
    }))
}

/// Queues a request that is made now, with this deadline.
fn ask(queue: &Arc<Queue>, deadline: Duration) -> Receiver<Replied> {
    let (request, reply) = check();
    queue.push(QueuedRequest { deadline: Deadline::after(deadline), ..request });
    reply
}

/// Puts requests that are made now, with these deadlines, into one call, which is in flight from now on.
fn send<const N: usize>(queue: &Arc<Queue>, deadlines: [Duration; N]) -> [Receiver<Replied>; N] {
    let mut requests = Vec::new();
    let replies = deadlines.map(|deadline| {
        let (request, reply) = check();
        requests.push(QueuedRequest { deadline: Deadline::after(deadline), ..request });
        reply
    });
    let call = Call::of_requests(requests, Some(NodeId::SINGLE), &queue.shared).unwrap();
    call.progress.send_now(0);
    queue.add(BatchInFlight::new([call], N, now(), None)).unwrap();
    replies
}

/// When the requests were made that wait, in their order.
fn instants(queue: &Queue) -> Vec<Instant> {
    let mut state = queue.state.lock();
    let waiting = state.waiting.take_all();
    let instants = waiting.iter().map(|request| request.deadline.since).collect();
    for request in waiting {
        state.waiting.push(request);
    }
    instants
}

async fn pass(time: Duration) {
    sleep(time).await;
    // The tasks that the time has woken.
    for _ in 0..10 {
        yield_now().await;
    }
}

const MILLIS: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn requests_wait_for_a_connection_in_their_order_until_their_deadline_or_its_failure() {
    let queue = connecting(&Handle::current(), true);
    let (mut replies, mut made) = (Vec::new(), Vec::new());
    // The second one has the shortest deadline.
    for deadline in [100, 20, 40, 100] {
        made.push(now());
        replies.push(ask(&queue, deadline * MILLIS));
        pass(MILLIS).await;
    }
    assert_eq!(instants(&queue), made, "none was sent, and each is in its place");
    pass(25 * MILLIS).await;
    assert!(matches!(replies.remove(1).try_recv(), Ok(Err(CallError::Timeout(_)))), "after its deadline");
    made.remove(1);
    assert_eq!(instants(&queue), made);
    pass(20 * MILLIS).await;
    assert!(matches!(replies.remove(1).try_recv(), Ok(Err(CallError::Timeout(_)))), "the next one as well");
    made.remove(1);
    assert_eq!(instants(&queue), made);
    queue.shared.link.mark_down(Arc::new(RedisError::from((ErrorKind::Io, "refused"))));
    pass(MILLIS).await;
    for mut reply in replies {
        let error = reply.try_recv().unwrap().unwrap_err();
        assert!(matches!(error, CallError::Connection { .. }), "{error:?}");
    }
    assert!(instants(&queue).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_another_thread_sends_waits_for_no_timer() {
    let queue = connecting(&Handle::current(), false);
    // Timers end at whole milliseconds.
    tokio::time::advance(MILLIS / 2).await;
    let start = now();
    let _reply = ask(&queue, 100 * MILLIS);
    for _ in 0..10 {
        yield_now().await;
    }
    assert!(queue.state.lock().stage == Stage::AwaitsConnection, "not sent");
    assert_eq!(now(), start);
}

#[tokio::test]
async fn requests_that_waited_for_a_connection_are_sent_over_it_in_their_order() {
    let queue = connecting(&Handle::current(), true);
    let request = |caller| check_of(caller, Algorithm::SlidingWindowCounter);
    let key =
        |request: &QueuedRequest| queue.shared.encoder.key_format.redis_key(&request.request.limits[0].key);
    let (requests, mut replies): (Vec<_>, Vec<_>) = ["first", "second"].map(request).into_iter().unzip();
    let mut keys: Vec<String> = requests.iter().map(key).collect();
    queue.await_connection(requests);
    let (third, reply) = request("third");
    keys.push(key(&third));
    queue.push(third);
    replies.push(reply);
    let (sender, calls) = mpsc::channel();
    connect(&queue.shared.link, 1, "-ERR not here\r\n", sender).await;
    for reply in replies {
        let result = timeout(PATIENCE, reply).await.expect("the connection's first call").unwrap();
        assert!(matches!(result, Err(CallError::Rejected(_))), "{result:?}");
    }
    assert_eq!(calls.recv_timeout(PATIENCE).unwrap(), keys);
    let (later, reply) = request("later");
    keys = vec![key(&later)];
    queue.push(later);
    timeout(PATIENCE, reply).await.expect("a call of its own").unwrap().unwrap_err();
    assert_eq!(calls.recv_timeout(PATIENCE).unwrap(), keys);
}

/// Notes the weight of the failures at the moment at which a task is woken.
struct WeightWhenWoken {
    link: Arc<Link>,
    weight: AtomicU32,
}

impl Wake for WeightWhenWoken {
    fn wake(self: Arc<Self>) {
        self.weight.store(self.link.failures[0].load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_counts_before_its_request_ends() {
    let queue = connecting(&Handle::current(), true);
    let link = &queue.shared.link;
    let [mut reply] = send(&queue, [link.deadline()]);
    let woken = Arc::new(WeightWhenWoken { link: Arc::clone(link), weight: AtomicU32::new(0) });
    let waker = Waker::from(Arc::clone(&woken));
    assert!(pin!(&mut reply).poll(&mut Context::from_waker(&waker)).is_pending());
    pass(link.deadline() + MILLIS).await;
    assert!(matches!(reply.try_recv(), Ok(Err(CallError::Timeout(_)))));
    assert_eq!(woken.weight.load(Ordering::Relaxed), link.breaker.timeout_weight());
}

#[tokio::test(start_paused = true)]
async fn a_call_is_one_timeout_whatever_deadlines_its_requests_have() {
    let queue = connecting(&Handle::current(), true);
    let link = &queue.shared.link;
    let replies = send(&queue, [60, 70, 80, 100].map(|deadline| deadline * MILLIS));
    pass(link.deadline() + MILLIS).await;
    for mut reply in replies {
        assert!(matches!(reply.try_recv(), Ok(Err(CallError::Timeout(_)))));
    }
    assert_eq!(link.failures[0].load(Ordering::Relaxed), link.breaker.timeout_weight());
}

#[tokio::test(start_paused = true)]
async fn a_batch_without_a_reply_is_given_up_after_the_deadline() {
    let queue = connecting(&Handle::current(), true);
    let deadline = queue.shared.link.deadline();
    let _replies = send(&queue, [deadline / 2]);
    pass(deadline.saturating_sub(MILLIS)).await;
    assert_eq!(queue.state.lock().in_flight.busy(), 1, "its reply shows how the server is");
    pass(2 * MILLIS).await;
    assert_eq!(queue.state.lock().in_flight.busy(), 0);
}

#[tokio::test]
async fn a_reply_sends_what_waited_for_it() {
    let queue = connecting(&Handle::current(), true);
    let (sender, calls) = mpsc::channel();
    // The server says nothing: the test has the reply.
    connect(&queue.shared.link, 1, "", sender).await;
    // No interval between two calls ends.
    pause();
    let _replies = [ask(&queue, PATIENCE), ask(&queue, PATIENCE)];
    calls.recv_timeout(PATIENCE).unwrap();
    assert_eq!(instants(&queue).len(), 1, "behind the call in flight");
    let error = RedisError::from((ErrorKind::Client, "a reply"));
    Arc::clone(&queue).reply(CallId { batch: 1, index: 0 }, Err(error));
    assert!(instants(&queue).is_empty());
    calls.recv_timeout(PATIENCE).unwrap();
}

#[tokio::test]
async fn a_reply_of_another_shape_gives_the_connection_up() {
    for (reply, is_kept) in [("$4\r\nodd!\r\n", false), ("+OK\r\n", false), ("-WRONGTYPE no\r\n", true)] {
        let queue = connecting(&Handle::current(), true);
        let link = &queue.shared.link;
        connect(link, 1, reply, mpsc::channel().0).await;
        // It counts for nothing.
        let _ = link.breaker.record_failure(&link.failures[0], 1);
        let result = timeout(PATIENCE, ask(&queue, PATIENCE)).await.unwrap().unwrap();
        assert_eq!(matches!(result, Err(CallError::Protocol(_))), !is_kept, "{reply}: {result:?}");
        assert_eq!(link.is_up(), is_kept, "{reply}");
        assert_eq!(link.failures[0].load(Ordering::Relaxed), 1, "{reply}");
    }
}

#[tokio::test]
async fn requests_are_left_to_the_thread_that_sends() {
    let queue = connecting(&Handle::current(), true);
    let (sender, calls) = mpsc::channel();
    connect(&queue.shared.link, 1, "", sender).await;
    queue.state.lock().is_sending = true;
    let _reply = ask(&queue, PATIENCE);
    assert_eq!(instants(&queue).len(), 1, "in its place behind what is being sent");
    queue.state.lock().is_sending = false;
    queue.advance(queue.state.lock());
    calls.recv_timeout(PATIENCE).unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_alarm_is_set_again_for_each_call_in_flight() {
    let queue = connecting(&Handle::current(), true);
    let mut replies = [40, 20, 60].map(|deadline| send(&queue, [deadline * MILLIS]));
    for next in [1, 0, 2] {
        pass(19 * MILLIS).await;
        assert!(replies[next][0].try_recv().is_err(), "{next}: before its deadline");
        pass(MILLIS).await;
        assert!(matches!(replies[next][0].try_recv(), Ok(Err(CallError::Timeout(_)))), "{next}");
    }
}

#[test]
fn a_queue_whose_thread_has_ended_keeps_nothing() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let queue = connecting(runtime.handle(), true);
    let waiting = ask(&queue, 100 * MILLIS);
    drop(runtime);
    assert_closed(waiting);
    assert_closed(ask(&queue, 100 * MILLIS));
    // What a thread was sending meanwhile.
    let (request, reply) = check();
    let call = Call::of_requests(vec![request], Some(NodeId::SINGLE), &queue.shared);
    assert!(queue.add(BatchInFlight::new(call, 1, now(), None)).is_none());
    assert_closed(reply);
    let (request, reply) = check();
    queue.await_connection(vec![request]);
    assert_closed(reply);
}

/// The request has no reply, and gets none.
fn assert_closed(mut reply: Receiver<Replied>) {
    assert!(matches!(reply.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
}

#[cfg(feature = "calendar")]
#[tokio::test]
async fn a_call_is_corrected_once_by_a_reply_that_says_only_the_servers_instant() {
    use crate::check::Check;
    use crate::policy::{Calendar, Policy};
    use crate::store::redis::protocol::LimitArg;

    let queue = connecting(&Handle::current(), true);
    let policy = Policy::builder("day").calendar(Calendar::day()).build();
    let (year_2100, calls) = (4_102_444_800_000_000.0f64, [false, true]);
    for is_sent_alone in calls {
        let (mut request, mut reply) = check();
        let check = Check::new(&policy, "alice");
        request.request.limits[0] = LimitArg::new(queue.shared.encoder.key_format.key(&check), &check);
        let call = Call::of_requests(vec![request], Some(NodeId::SINGLE), &queue.shared).unwrap();
        let batch = queue.add(BatchInFlight::new([call], 1, now(), None)).unwrap();
        let id = CallId { batch, index: 0 };
        let take = || queue.state.lock().in_flight.get_mut(id).unwrap().0.take_command();
        let instant = Value::BulkString(year_2100.to_le_bytes().to_vec());
        let mut command = is_sent_alone.then(take);
        assert!(queue.corrects_windows(id, command.as_mut(), &instant));
        assert!(!queue.corrects_windows(id, command.as_mut(), &instant), "at most once");
        let Command::Run(call) = command.unwrap_or_else(take) else { panic!("a script") };
        assert_eq!(
            call.arguments[4][..8],
            year_2100.to_le_bytes(),
            "its windows are those of the server's clock"
        );
        assert!(!Arc::clone(&queue).reply(id, Ok(instant)), "a second one is not the reply to this call");
        assert!(matches!(reply.try_recv(), Ok(Err(CallError::Protocol(_)))));
    }
}
