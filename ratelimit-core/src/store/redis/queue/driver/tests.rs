//! Tests of the task of a queue without a Redis server.

use std::future::{Pending, pending};
use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::task::{Context, Wake, Waker};

use redis::{ErrorKind, RedisError};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot::{self, Receiver};
use tokio::time::{advance, pause, sleep, timeout};

use super::super::request::tests::{check, check_of};
use super::super::{Home, Queue, Replied};
use super::*;
use crate::policy::Algorithm;
use crate::store::Deadline;
use crate::store::redis::command::{GuardedCommand, ScriptCall};
use crate::store::redis::connections::Connections;
use crate::store::redis::link::Link;
use crate::store::redis::link::tests::connect;
use crate::store::redis::script;
use crate::store::redis::shared::tests::shared;

const MILLIS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(30);

/// What the task of a queue works with: that of the home lane of a store that is making its first connection.
fn parts(runtime: &Handle) -> (Arc<Shared>, Arc<Connections>) {
    let shared = shared(runtime);
    let connections = Arc::new(Connections::new(Arc::clone(&shared), runtime.clone(), true));
    (shared, connections)
}

/// The inbox of such a queue, whose task runs, and its store.
fn connecting(runtime: &Handle) -> (Arc<Inbox>, Arc<Shared>) {
    let ((shared, connections), inbox) = (parts(runtime), Arc::<Inbox>::default());
    runtime.spawn(drive(Arc::clone(&inbox), Arc::clone(&shared), connections));
    (inbox, shared)
}

type Silent = Driver<fn(Errand) -> Pending<Ended>, Pending<Ended>>;

/// A task that does not run, and whose calls get no reply.
fn silent() -> Silent {
    let (shared, connections) = parts(&Handle::current());
    Driver::new(Arc::default(), shared, connections, |_| pending())
}

/// Queues a request that is made now, with this deadline.
fn ask(inbox: &Inbox, deadline: Duration) -> Receiver<Replied> {
    let (request, reply) = check();
    inbox.push(Queued::Request(QueuedRequest { deadline: Deadline::after(deadline), ..request }), now());
    reply
}

/// Queues a command that is made now, with this deadline.
fn command(inbox: &Inbox, deadline: Duration) -> Receiver<Replied> {
    let (ended, end) = oneshot::channel();
    let command = GuardedCommand { command: Command::Delete(SmallVec::new()), guard: Box::new(()) };
    let waiter = Some((Deadline::after(deadline), ended));
    inbox.push(Queued::Command(QueuedCommand { command, hash_slot: 0, waiter }), now());
    end
}

/// Puts requests that are made now, with these deadlines, into one call, which is in flight from now on.
fn send<const N: usize>(driver: &mut Silent, deadlines: [Duration; N]) -> [Receiver<Replied>; N] {
    let mut requests = Vec::new();
    let replies = deadlines.map(|deadline| {
        let (request, reply) = check();
        requests.push(QueuedRequest { deadline: Deadline::after(deadline), ..request });
        reply
    });
    let shared = Arc::clone(&driver.shared);
    let call = Call::of_requests(requests, Some(NodeId::SINGLE), &shared).unwrap();
    call.progress.send_now(0);
    let batch = BatchInFlight::new([call], N, now(), None);
    let (_, due) = driver.in_flight.add(batch, shared.link.deadline());
    driver.alarm.set(Some(due));
    replies
}

/// When the requests were made that wait, in their order.
fn instants(inbox: &Inbox) -> Vec<Instant> {
    let mut content = inbox.content.lock();
    let waiting = content.waiting.take_all();
    let instants = waiting.iter().map(|request| request.deadline.since).collect();
    for request in waiting {
        content.waiting.push(request);
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

fn is_timeout(reply: &mut Receiver<Replied>) -> bool {
    matches!(reply.try_recv(), Ok(Err(CallError::Timeout(_))))
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_a_connection_in_their_order_until_their_deadline_or_its_failure() {
    let (inbox, shared) = connecting(&Handle::current());
    let (mut replies, mut made) = (Vec::new(), Vec::new());
    // The second one has the shortest deadline.
    for deadline in [100, 20, 40, 100] {
        made.push(now());
        replies.push(ask(&inbox, deadline * MILLIS));
        pass(MILLIS).await;
    }
    assert_eq!(instants(&inbox), made, "none was sent, and each is in its place");
    pass(25 * MILLIS).await;
    assert!(is_timeout(&mut replies.remove(1)), "after its deadline");
    made.remove(1);
    assert_eq!(instants(&inbox), made);
    pass(20 * MILLIS).await;
    assert!(is_timeout(&mut replies.remove(1)), "the next one as well");
    made.remove(1);
    assert_eq!(instants(&inbox), made);
    shared.link.mark_down(Arc::new(RedisError::from((ErrorKind::Io, "refused"))));
    pass(MILLIS).await;
    for mut reply in replies {
        let error = reply.try_recv().unwrap().unwrap_err();
        assert!(matches!(error, CallError::Connection { .. }), "{error:?}");
    }
    assert!(instants(&inbox).is_empty());
}

#[tokio::test]
async fn requests_that_waited_for_a_connection_are_sent_over_it_in_their_order() {
    let (inbox, shared) = connecting(&Handle::current());
    let request = |caller| check_of(caller, Algorithm::SlidingWindowCounter);
    let key = |request: &QueuedRequest| shared.encoder.key_format.redis_key(&request.request.limits[0].key);
    let (mut keys, mut replies) = (Vec::new(), Vec::new());
    for caller in ["first", "second", "third"] {
        let (request, reply) = request(caller);
        keys.push(key(&request));
        inbox.push(Queued::Request(request), now());
        replies.push(reply);
        // Two of them wait for the connection, the third is queued when it comes.
        if caller == "second" {
            yield_now().await;
        }
    }
    let (sender, calls) = mpsc::channel();
    connect(&shared.link, 1, "-ERR not here\r\n", sender).await;
    for reply in replies {
        let result = timeout(LONG, reply).await.expect("the connection's first call").unwrap();
        assert!(matches!(result, Err(CallError::Rejected(_))), "{result:?}");
    }
    assert_eq!(calls.recv_timeout(LONG).unwrap(), keys);
    let (later, reply) = request("later");
    keys = vec![key(&later)];
    inbox.push(Queued::Request(later), now());
    timeout(LONG, reply).await.expect("a call of its own").unwrap().unwrap_err();
    assert_eq!(calls.recv_timeout(LONG).unwrap(), keys);
}

/// More than a runtime lets a task do at once.
#[tokio::test]
async fn commands_are_written_in_the_order_in_which_they_were_queued() {
    let (inbox, shared) = connecting(&Handle::current());
    let (sender, calls) = mpsc::channel();
    connect(&shared.link, 1, ":1\r\n", sender).await;
    let (mut keys, mut ends) = (Vec::new(), Vec::new());
    for number in 0..500 {
        let key = format!("rl1:{number}");
        let script = script::refund(std::iter::once(Algorithm::FixedWindow));
        let call = ScriptCall { script, keys: smallvec![key.clone()], arguments: smallvec![Vec::new()] };
        let command = GuardedCommand { command: Command::Run(call), guard: Box::new(()) };
        let (ended, end) = oneshot::channel();
        let waiter = Some((Deadline::after(LONG), ended));
        inbox.push(Queued::Command(QueuedCommand { command, hash_slot: 0, waiter }), now());
        keys.push(vec![key]);
        ends.push(end);
    }
    for end in ends {
        timeout(LONG, end).await.unwrap().unwrap().unwrap();
    }
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), keys);
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
    let mut driver = silent();
    let link = Arc::clone(&driver.shared.link);
    let [mut reply] = send(&mut driver, [link.deadline()]);
    tokio::spawn(driver.run());
    let woken = Arc::new(WeightWhenWoken { link: Arc::clone(&link), weight: AtomicU32::new(0) });
    let waker = Waker::from(Arc::clone(&woken));
    assert!(pin!(&mut reply).poll(&mut Context::from_waker(&waker)).is_pending());
    pass(link.deadline() + MILLIS).await;
    assert!(is_timeout(&mut reply));
    assert_eq!(woken.weight.load(Ordering::Relaxed), link.breaker.timeout_weight());
}

#[tokio::test(start_paused = true)]
async fn a_call_is_one_timeout_whatever_deadlines_its_requests_have() {
    let mut driver = silent();
    let link = Arc::clone(&driver.shared.link);
    let replies = send(&mut driver, [60, 70, 80, 100].map(|deadline| deadline * MILLIS));
    tokio::spawn(driver.run());
    pass(link.deadline() + MILLIS).await;
    for mut reply in replies {
        assert!(is_timeout(&mut reply));
    }
    assert_eq!(link.failures[0].load(Ordering::Relaxed), link.breaker.timeout_weight());
}

#[tokio::test(start_paused = true)]
async fn a_batch_without_a_reply_is_given_up_after_the_deadline() {
    let mut driver = silent();
    let (start, deadline) = (now(), driver.shared.link.deadline());
    let [mut reply] = send(&mut driver, [deadline / 2]);
    driver.end_late(start + deadline.saturating_sub(MILLIS));
    assert!(is_timeout(&mut reply));
    assert_eq!(driver.in_flight.busy(), 1, "its reply shows how the server is");
    driver.end_late(start + deadline);
    assert_eq!(driver.in_flight.busy(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_alarm_is_set_again_for_each_call_in_flight() {
    let mut driver = silent();
    let mut replies = [40, 20, 60].map(|deadline| send(&mut driver, [deadline * MILLIS]));
    tokio::spawn(driver.run());
    for next in [1, 0, 2] {
        pass(19 * MILLIS).await;
        assert!(replies[next][0].try_recv().is_err(), "{next}: before its deadline");
        pass(MILLIS).await;
        assert!(is_timeout(&mut replies[next][0]), "{next}");
    }
}

/// A store with a connection over which nothing comes back, and a task that does not run.
async fn connected() -> (Silent, mpsc::Receiver<Vec<String>>) {
    let driver = silent();
    let (sender, calls) = mpsc::channel();
    connect(&driver.shared.link, 1, "", sender).await;
    (driver, calls)
}

#[tokio::test]
async fn what_comes_while_eight_calls_are_in_flight_goes_into_the_next() {
    let (mut driver, _calls) = connected().await;
    let inbox = Arc::clone(&driver.inbox);
    let mut replies = Vec::new();
    for calls in 1..=MAX_CALLS {
        replies.push(ask(&inbox, LONG));
        driver.send_queued();
        assert_eq!(driver.in_flight.busy(), calls, "each turn sends a call");
    }
    for _ in 0..3 {
        replies.push(ask(&inbox, LONG));
        driver.send_queued();
    }
    assert_eq!((driver.in_flight.busy(), instants(&inbox).len()), (MAX_CALLS, 3));
    let reply = Err(RedisError::from((ErrorKind::Client, "a reply")));
    driver.reply(CallId { batch: 1, index: 0 }, reply);
    driver.send_queued();
    assert_eq!((driver.in_flight.busy(), instants(&inbox).len()), (MAX_CALLS, 0), "one call for all three");
    let (mut late, reply) = check();
    late.deadline.since -= driver.shared.link.deadline() / PATIENCE;
    inbox.push(Queued::Request(late), now());
    replies.push(reply);
    driver.send_queued();
    assert_eq!(driver.in_flight.busy(), MAX_CALLS + 1, "it has waited for long enough");
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_has_arrived_counts_before_a_deadline_that_has_passed() {
    let (shared, connections) = parts(&Handle::current());
    let deadline = shared.link.deadline();
    let arrives = now() + deadline;
    let carry = move |_| async move {
        tokio::spawn(async move { sleep_until(arrives).await }).await.unwrap();
        let error = RedisError::from((ErrorKind::Client, "a reply"));
        let (first, replies) = (CallId { batch: 1, index: 0 }, CallReplies::from_iter([Err(error)]));
        Ended::Sent { first, replies }
    };
    let mut driver = Driver::new(Arc::default(), shared, connections, carry);
    let (request, reply) = check();
    let request = QueuedRequest { deadline: Deadline::after(deadline), ..request };
    let call = Call::of_requests(vec![request], Some(NodeId::SINGLE), &driver.shared);
    driver.in_flight.add(BatchInFlight::new(call, 1, now(), None), deadline);
    driver.alarm.set(Some(arrives));
    driver.errand(Errand::AwaitConnection(Arc::clone(&driver.shared)));
    tokio::spawn(driver.run());
    let result = reply.await.unwrap();
    assert!(matches!(result, Err(CallError::Rejected(_))), "{result:?}");
}

#[tokio::test]
async fn a_reply_of_another_shape_gives_the_connection_up() {
    for (reply, is_kept) in [("$4\r\nodd!\r\n", false), ("+OK\r\n", false), ("-WRONGTYPE no\r\n", true)] {
        let (inbox, shared) = connecting(&Handle::current());
        let link = &shared.link;
        connect(link, 1, reply, mpsc::channel().0).await;
        // It counts for nothing.
        let _ = link.breaker.record_failure(&link.failures[0], 1);
        let result = timeout(LONG, ask(&inbox, LONG)).await.unwrap().unwrap();
        assert_eq!(matches!(result, Err(CallError::Protocol(_))), !is_kept, "{reply}: {result:?}");
        assert_eq!(link.is_up(), is_kept, "{reply}");
        assert_eq!(link.failures[0].load(Ordering::Relaxed), 1, "{reply}");
    }
}

#[tokio::test]
async fn replies_behind_one_of_another_shape_are_those_of_other_calls() {
    let (mut driver, _calls) = connected().await;
    let mut replies = Vec::new();
    for _ in 0..2 {
        replies.push(ask(&driver.inbox, LONG));
        driver.send_queued();
    }
    let first = |batch| CallId { batch, index: 0 };
    driver.end_calls(first(1), CallReplies::from_iter([Ok(Value::Okay)]));
    assert!(matches!(replies[0].try_recv(), Ok(Err(CallError::Protocol(_)))));
    let reply = RedisError::from((ErrorKind::Client, "a reply"));
    driver.end_calls(first(2), CallReplies::from_iter([Err(reply)]));
    assert!(matches!(replies[1].try_recv(), Ok(Err(CallError::Connection { .. }))));
}

/// A home lane that notes what it is given.
#[derive(Default)]
struct Given(parking_lot::Mutex<Vec<Queued>>);

impl Home for Given {
    fn push(&self, queued: Queued, _: Instant) {
        self.0.lock().push(queued);
    }
}

#[tokio::test]
async fn a_lane_without_a_connection_leaves_its_requests_to_the_home_lane() {
    let shared = shared(&Handle::current());
    let connections = Arc::new(Connections::new(Arc::clone(&shared), Handle::current(), false));
    let home = Arc::new(Given::default());
    let queue = Queue::start(shared, connections, Some(Arc::clone(&home) as _));
    let (request, mut reply) = check();
    queue.push(Queued::Request(request), now());
    while home.0.lock().is_empty() {
        yield_now().await;
    }
    assert!(matches!(reply.try_recv(), Err(oneshot::error::TryRecvError::Empty)));
}

/// It sends until nothing is left, while another thread queues more.
#[tokio::test(start_paused = true)]
async fn a_task_whose_turn_takes_long_is_not_stuck() {
    let mut driver = silent();
    driver.inbox = Arc::new(Inbox::of_lane(Some(Arc::new(Given::default()))));
    let _first = ask(&driver.inbox, LONG);
    driver.send_queued();
    advance(STALL).await;
    let _next = ask(&driver.inbox, LONG);
    driver.inbox.hand_over_if_stuck(STALL, now());
    assert!(!driver.inbox.is_stuck());
}

#[test]
fn a_queue_whose_runtime_has_ended_keeps_nothing() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (inbox, _) = connecting(runtime.handle());
    let waiting = ask(&inbox, 100 * MILLIS);
    drop(runtime);
    for mut reply in [waiting, ask(&inbox, 100 * MILLIS)] {
        assert!(matches!(reply.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
    }
}

/// Sent over a connection, or alone.
#[cfg(feature = "calendar")]
#[tokio::test]
async fn a_call_is_corrected_once_by_a_reply_that_says_only_the_servers_instant() {
    use crate::check::Check;
    use crate::policy::{Calendar, Policy};
    use crate::store::redis::protocol::LimitArg;

    let (mut driver, _calls) = connected().await;
    let shared = Arc::clone(&driver.shared);
    let policy = Policy::builder("day").calendar(Calendar::day()).build();
    let call = || {
        let (mut request, reply) = check();
        let check = Check::new(&policy, "alice");
        request.request.limits[0] = LimitArg::new(shared.encoder.key_format.key(&check), &check);
        (Call::of_requests(vec![request], Some(NodeId::SINGLE), &shared).unwrap(), reply)
    };
    for is_sent_alone in [false, true] {
        let connection = shared.link.single().filter(|_| !is_sent_alone);
        let (to_answer, mut reply) = call();
        let batch = BatchInFlight::new([to_answer], 1, now(), connection);
        let (batch, _) = driver.in_flight.add(batch, LONG);
        let id = CallId { batch, index: 0 };
        let mut answer = |instant: f64| {
            let instant = Value::BulkString(instant.to_le_bytes().to_vec());
            if is_sent_alone {
                let command = call().0.take_command();
                driver.end(Ended::SentAlone { id, command, result: Some(Ok(instant)) });
            } else {
                driver.reply(id, Ok(instant));
            }
        };
        // The years 2100 and 2101: the server's clock is set meanwhile.
        answer(4_102_444_800_000_000.0);
        assert!(matches!(reply.try_recv(), Err(oneshot::error::TryRecvError::Empty)), "it is sent again");
        answer(4_133_980_800_000_000.0);
        assert!(matches!(reply.try_recv(), Ok(Err(CallError::Protocol(_)))), "at most once");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_ends_by_an_alarm_that_was_missed_until_its_grace_is_over() {
    let mut driver = silent();
    let deadline = driver.shared.link.deadline();
    let [mut reply] = send(&mut driver, [deadline]);
    let mut waiting = ask(&driver.inbox, deadline + MILLIS);
    let missed = 40 * MILLIS;
    advance(deadline + missed).await;
    tokio::spawn(driver.run());
    pass(missed.saturating_sub(MILLIS)).await;
    assert!(reply.try_recv().is_err() && waiting.try_recv().is_err());
    pass(2 * MILLIS).await;
    assert!(is_timeout(&mut reply) && waiting.try_recv().is_err(), "it waited for its thread");
    pass(deadline).await;
    assert!(is_timeout(&mut waiting));
}

/// The task did not run: another one of its thread computed, for longer than the deadline.
#[tokio::test(start_paused = true)]
async fn what_waited_for_its_thread_is_sent_and_given_the_time_back() {
    let mut driver = silent();
    let deadline = driver.shared.link.deadline();
    let (mut reply, mut end) = (ask(&driver.inbox, deadline), command(&driver.inbox, deadline));
    advance(deadline * 3 / 2).await;
    driver.put_off_if_missed();
    driver.send_queued();
    assert!(reply.try_recv().is_err() && driver.awaits_connection, "it waits for the connection");
    driver.end_late(now());
    assert!(end.try_recv().is_err());
    driver.end_late(now() + deadline);
    assert!(is_timeout(&mut end));
}

/// The process stands still on the way of a request to its queue, or to that of the home lane.
#[tokio::test(start_paused = true)]
async fn the_time_before_a_request_is_in_a_queue_is_given_back_once() {
    let mut driver = silent();
    let deadline = driver.shared.link.deadline();
    let (request, mut reply) = check();
    let request = QueuedRequest { deadline: Deadline::after(deadline), ..request };
    let home = Arc::new(Given::default());
    let lane = Inbox::of_lane(Some(Arc::clone(&home) as _));
    lane.push(Queued::Request(request), now());
    advance(3 * deadline).await;
    lane.hand_over_if_stuck(deadline, now());
    let queued = home.0.lock().pop().unwrap();
    let since = now();
    advance(3 * deadline).await;
    driver.inbox.push(queued, since);
    driver.put_off_if_missed();
    driver.send_queued();
    assert!(reply.try_recv().is_err() && driver.awaits_connection, "it waits for the connection");
    let limit = |driver: &Silent| driver.inbox.content.lock().waiting.take_all()[0].deadline.limit();
    assert_eq!(limit(&driver), 7 * deadline, "each of the stalls once");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_held_up_on_its_way_puts_off_no_other() {
    let mut driver = silent();
    let _waits = ask(&driver.inbox, LONG);
    driver.send_queued();
    let since = now();
    advance(20 * MILLIS).await;
    let (request, _reply) = check();
    let limit = request.deadline.limit();
    let deadline = Deadline { since, last_ran: since, ..request.deadline };
    driver.inbox.push(Queued::Request(QueuedRequest { deadline, ..request }), since);
    driver.put_off_if_missed();
    let waiting = driver.inbox.content.lock().waiting.take_all();
    let limits: Vec<_> = waiting.iter().map(|request| request.deadline.limit()).collect();
    assert_eq!(limits, [LONG, limit + 20 * MILLIS]);
}

/// Longer than the deadline.
const STALL: Duration = Duration::from_secs(1);

fn stall() {
    let _ = advance(STALL).now_or_never();
}

/// The process stands still while the task sends a command, and again behind each call.
#[tokio::test]
async fn requests_behind_a_stall_in_the_middle_of_a_turn_are_sent() {
    let (mut driver, _calls) = connected().await;
    pause();
    let deadline = driver.shared.link.deadline();
    assert!(deadline < STALL);
    driver.carry = |_| {
        stall();
        pending()
    };
    let mut end = command(&driver.inbox, deadline);
    // More than a call takes.
    let mut replies: Vec<_> = (0..200).map(|_| ask(&driver.inbox, deadline)).collect();
    driver.send_queued();
    assert_eq!((driver.in_flight.busy(), instants(&driver.inbox).len()), (2, 0));
    assert!(replies.iter_mut().chain([&mut end]).all(|reply| reply.try_recv().is_err()));
}

/// The process stands still, or another task computes, while the task of the queue yields at its alarm.
#[tokio::test(start_paused = true)]
async fn what_becomes_due_while_replies_are_read_is_not_late() {
    let mut driver = silent();
    let deadline = driver.shared.link.deadline();
    let [mut due, mut later] = send(&mut driver, [deadline, deadline + MILLIS]);
    let mut waiting = ask(&driver.inbox, deadline + MILLIS);
    advance(deadline).await;
    driver.since_last();
    tokio::spawn(async { stall() });
    driver.at_alarm().await;
    assert!(is_timeout(&mut due));
    assert!(later.try_recv().is_err() && waiting.try_recv().is_err());
    assert!(driver.put_off_if_missed(), "replies that came meanwhile are read first");
    let limit = driver.inbox.content.lock().waiting.take_all()[0].deadline.limit;
    assert_eq!(limit, deadline + MILLIS + STALL);
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_stall_is_given_back_once() {
    async fn stall(driver: &mut Silent, millis: u32) {
        advance(millis * MILLIS).await;
        driver.put_off_if_missed();
    }
    let mut driver = silent();
    driver.alarm.set(Some(now()));
    stall(&mut driver, 250).await;
    stall(&mut driver, 500).await;
    // From now on the alarm stays missed.
    let _reply = ask(&driver.inbox, LONG);
    stall(&mut driver, 400).await;
    stall(&mut driver, 0).await;
    assert_eq!(driver.inbox.content.lock().waiting.take_all()[0].deadline.limit, LONG + 400 * MILLIS);
}

#[tokio::test(start_paused = true)]
async fn what_a_task_that_is_stuck_does_not_take_goes_to_the_home_lane() {
    let home = Arc::new(Given::default());
    let inbox = Inbox::of_lane(Some(Arc::clone(&home) as _));
    let _reply = ask(&inbox, LONG);
    inbox.hand_over_if_stuck(MILLIS, now());
    assert!(home.0.lock().is_empty() && !inbox.is_stuck(), "woken just now");
    advance(MILLIS).await;
    inbox.hand_over_if_stuck(MILLIS, now());
    assert!(home.0.lock().len() == 1 && inbox.is_stuck());
    inbox.note_running(now());
    assert!(!inbox.is_stuck(), "it runs again");
    let _reply = ask(&inbox, LONG);
    inbox.close();
    assert_eq!(home.0.lock().len(), 2, "what a runtime leaves behind");
    let _reply = ask(&inbox, LONG);
    assert_eq!(home.0.lock().len(), 3, "what comes then");
}

#[test]
fn a_task_that_runs_while_its_queue_is_handed_over_is_not_stuck() {
    let inbox = Inbox::of_lane(Some(Arc::new(Given::default())));
    let is_done = AtomicBool::new(false);
    let was_stuck = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                inbox.hand_over_if_stuck(Duration::ZERO, now());
            }
        });
        let was_stuck = (0..20_000).find(|_| {
            let _reply = ask(&inbox, LONG);
            inbox.note_running(now());
            inbox.is_stuck()
        });
        is_done.store(true, Ordering::Relaxed);
        was_stuck
    });
    assert_eq!(was_stuck, None, "rounds until it was taken for stuck");
}

#[tokio::test]
async fn a_connection_that_is_silent_for_three_calls_is_given_up_whatever_others_reply() {
    let (mut driver, _calls) = connected().await;
    pause();
    let link = Arc::clone(&driver.shared.link);
    let connection = link.single().unwrap();
    for call in 1..=3 {
        let _reply = ask(&driver.inbox, link.deadline());
        driver.send_queued();
        assert_eq!(driver.in_flight.busy(), 1);
        assert!(!connection.server.is_given_up(), "{call}");
        advance(link.deadline() + MILLIS).await;
        driver.end_late(now());
        // Of another lane.
        link.breaker.reset(&link.failures[0], true);
    }
    assert!(connection.server.is_given_up() && link.single().is_none());
}

#[tokio::test]
async fn a_batch_is_not_sent_to_a_range_whose_breaker_has_opened() {
    let (mut driver, _calls) = connected().await;
    let link = Arc::clone(&driver.shared.link);
    let mut reply = ask(&driver.inbox, LONG);
    for _ in 0..3 {
        link.record_timeout(0, 1);
    }
    driver.send_queued();
    assert_eq!(driver.in_flight.busy(), 0);
    assert!(matches!(reply.try_recv(), Ok(Err(CallError::Connection { .. }))));
}

#[tokio::test]
async fn the_loss_of_a_connection_of_one_runtime_says_nothing_about_the_store() {
    for is_home in [false, true] {
        let (mut driver, _calls) = connected().await;
        let shared = Arc::clone(&driver.shared);
        driver.connections = Arc::new(Connections::new(Arc::clone(&shared), Handle::current(), is_home));
        let (request, mut reply) = check();
        let call = Call::of_requests(vec![request], Some(NodeId::SINGLE), &shared);
        let (batch, _) = driver.in_flight.add(BatchInFlight::new(call, 1, now(), shared.link.single()), LONG);
        let lost = RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        driver.reply(CallId { batch, index: 0 }, Err(lost));
        let result = reply.try_recv().unwrap();
        assert!(matches!(result, Err(CallError::Connection { .. })), "{result:?}");
        assert_eq!(shared.link.is_up(), !is_home);
    }
}
