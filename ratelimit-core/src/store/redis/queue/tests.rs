//! Tests of the queues of a lane without a Redis server.

use std::future::Future;
use std::iter;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

use redis::{ErrorKind, RedisError};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::oneshot::{self, Receiver};
use tokio::time::{advance, pause, timeout};

use super::request::tests::{check, check_of};
use super::waiting::MAX_CALLS;
use super::*;
use crate::policy::Algorithm;
use crate::store::deadline::now;
use crate::store::redis::command::{Command, GuardedCommand};
use crate::store::redis::connections::Connections;
use crate::store::redis::link::tests::{connection, mark_up};
use crate::store::redis::script;
use crate::store::redis::shared::tests::shared;

const LONG: Duration = Duration::from_secs(30);

/// The lane of a store that is making its first connection.
fn connecting(runtime: &Handle) -> Arc<Lane> {
    let shared = shared(runtime);
    let connections = Connections::of_store(Arc::clone(&shared));
    Lane::new(&shared, connections, None)
}

/// Connects the store to a server that answers each call with `reply`. Returns the keys of each call.
async fn connect(lane: &Lane, reply: &'static str) -> mpsc::Receiver<Vec<String>> {
    let (sender, calls) = mpsc::channel();
    let server = connection(reply, sender).await;
    mark_up(&lane.shared.link, 1);
    lane.connections.install(1, vec![(NodeId::SINGLE, server)]);
    calls
}

/// The lane of a store that is connected to such a server.
async fn connected(reply: &'static str) -> (Arc<Lane>, mpsc::Receiver<Vec<String>>) {
    let lane = connecting(&Handle::current());
    let calls = connect(&lane, reply).await;
    (lane, calls)
}

/// The lane of a worker of this store, which has no connection yet.
fn of_worker(of_store: &Arc<Lane>) -> Arc<Lane> {
    let connections = Connections::of_worker(&of_store.connections, Handle::current());
    Lane::new(&of_store.shared, connections, Some(Arc::clone(of_store)))
}

/// Queues a check. Returns the channel for its reply.
fn push_check(lane: &Arc<Lane>) -> Receiver<Replied> {
    let (request, reply) = check();
    lane.push(Queued::Request(request));
    reply
}

/// Lets all tasks run that are ready.
async fn run_ready() {
    for _ in 0..20 {
        yield_now().await;
    }
}

async fn ended<T>(reply: impl Future<Output = Result<T, oneshot::error::RecvError>>) -> T {
    timeout(LONG, reply).await.expect("an end in time").expect("a reply")
}

fn key(request: &QueuedRequest) -> String {
    String::from_utf8(request.request.limits[0].key.as_ref().to_vec()).unwrap()
}

#[tokio::test]
async fn requests_wait_for_a_connection_and_go_over_it_in_their_order() {
    let lane = connecting(&Handle::current());
    let request = |caller| check_of(caller, Algorithm::SlidingWindowCounter);
    let (mut keys, mut replies) = (Vec::new(), Vec::new());
    for caller in ["first", "second", "third"] {
        let (request, reply) = request(caller);
        keys.push(key(&request));
        lane.push(Queued::Request(request));
        replies.push(reply);
        run_ready().await;
    }
    let calls = connect(&lane, "-ERR not here\r\n").await;
    for reply in replies {
        let result = ended(reply).await;
        assert!(matches!(result, Err(CallError::Rejected(_))), "{result:?}");
    }
    assert_eq!(calls.recv_timeout(LONG).unwrap(), keys);
    let (later, reply) = request("later");
    keys = vec![key(&later)];
    lane.push(Queued::Request(later));
    ended(reply).await.unwrap_err();
    assert_eq!(calls.recv_timeout(LONG).unwrap(), keys, "a call of its own");
}

#[tokio::test]
async fn what_waits_for_a_connection_ends_when_it_fails() {
    let lane = connecting(&Handle::current());
    let mut replies = vec![push_check(&lane), push_check(&lane)];
    let (reply, end) = oneshot::channel();
    let command = GuardedCommand { command: Command::delete(&[b""; 0]), guard: Box::new(()) };
    lane.push(Queued::Command(QueuedCommand { command, hash_slot: 0, reply: Some(reply) }));
    replies.push(end);
    run_ready().await;
    lane.shared.link.mark_down(Arc::new(RedisError::from((ErrorKind::Io, "refused"))));
    for reply in replies {
        let error = ended(reply).await.unwrap_err();
        assert!(matches!(error, CallError::Connection { .. }), "{error:?}");
    }
}

/// The commands are more than a runtime lets a task do at once.
#[tokio::test]
async fn commands_are_written_in_the_order_in_which_they_were_queued() {
    let (lane, calls) = connected(":1\r\n").await;
    let (mut keys, mut ends) = (Vec::new(), Vec::new());
    for number in 0..500 {
        let key = format!("rl1:{number}");
        let script = script::refund(iter::once(Algorithm::FixedWindow));
        let command = GuardedCommand { command: Command::run(script, &[&key], &[b""]), guard: Box::new(()) };
        let (ended, end) = oneshot::channel();
        lane.push(Queued::Command(QueuedCommand { command, hash_slot: 0, reply: Some(ended) }));
        keys.push(vec![key]);
        ends.push(end);
        if number % 7 == 0 {
            yield_now().await;
        }
    }
    for end in ends {
        ended(end).await.unwrap();
    }
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), keys);
}

#[tokio::test]
async fn what_comes_while_eight_calls_are_in_flight_goes_into_the_next() {
    let (lane, calls) = connected("").await;
    pause();
    let mut replies = Vec::new();
    for _ in 0..MAX_CALLS {
        replies.push(push_check(&lane));
        run_ready().await;
    }
    let wait = || calls.recv_timeout(LONG).unwrap().len();
    let sizes: Vec<usize> = (0..MAX_CALLS).map(|_| wait()).collect();
    assert_eq!(sizes, [1; MAX_CALLS], "each flush sends a call");
    // Two requests wait for the calls in flight, and a third whose future is dropped.
    let mut waiting = vec![push_check(&lane), push_check(&lane)];
    let (request, dropped) = check_of("another caller", Algorithm::SlidingWindowCounter);
    lane.push(Queued::Request(request));
    run_ready().await;
    assert!(calls.try_recv().is_err());
    drop(dropped);
    advance(lane.shared.link.deadline() / 10).await;
    waiting.push(push_check(&lane));
    run_ready().await;
    assert_eq!(wait(), 1, "all of one caller, in one call for those that waited for long");
    assert_eq!(lane.queues[0].lock().take(true).0.requests.len(), 0);
    assert!(waiting.iter_mut().all(|reply| reply.try_recv().is_err()));
}

#[tokio::test]
async fn requests_of_tasks_that_are_ready_go_as_one_call() {
    let (lane, calls) = connected("-ERR not here\r\n").await;
    let push_for = |lane: &Arc<Lane>, caller| {
        let (request, reply) = check_of(caller, Algorithm::SlidingWindowCounter);
        lane.push(Queued::Request(request));
        reply
    };
    let of_task = Arc::clone(&lane);
    let ready = tokio::spawn(async move { ended(push_for(&of_task, "second")).await });
    ended(push_for(&lane, "first")).await.unwrap_err();
    ready.await.unwrap().unwrap_err();
    assert_eq!(calls.recv_timeout(LONG).unwrap().len(), 2);
}

#[tokio::test]
async fn a_call_that_ends_makes_room_for_the_next() {
    let (lane, calls) = connected("-WRONGTYPE says nothing about the server\r\n").await;
    let replies: Vec<_> = (0..2_000).map(|_| push_check(&lane)).collect();
    for reply in replies {
        ended(reply).await.unwrap_err();
    }
    assert!(calls.try_iter().count() > MAX_CALLS, "no call is larger than it may be");
}

#[tokio::test]
async fn a_flush_rests_for_the_next_call_and_ends_with_its_lane() {
    let (lane, _calls) = connected("-ERR not here\r\n").await;
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let others = tasks();
    for _ in 0..3 {
        ended(push_check(&lane)).await.unwrap_err();
        run_ready().await;
        assert_eq!(tasks(), others + 1);
    }
    // The task of the connection stays.
    let _connections = Arc::clone(&lane.connections);
    drop(lane);
    run_ready().await;
    assert_eq!(tasks(), others);
}

/// As a timer does that has just ended.
#[tokio::test]
async fn a_flush_that_something_else_wakes_rests_on() {
    let (lane, _calls) = connected("").await;
    let mut flush = Flush { lane: Arc::downgrade(&lane), place: 0, carries: Some(false) };
    let mut rests = || flush.rest(Waker::noop()).is_pending();
    assert!(rests() && rests());
    let _reply = push_check(&lane);
    assert!(!rests(), "it is scheduled");
}

#[tokio::test]
async fn a_reply_of_another_shape_gives_the_connection_up() {
    for (reply, is_kept) in [("$4\r\nodd!\r\n", false), ("+OK\r\n", false), ("-WRONGTYPE no\r\n", true)] {
        let (lane, _calls) = connected(reply).await;
        let link = &lane.shared.link;
        // An earlier failure, which this reply neither adds to nor takes back.
        let _ = link.breaker.record_failure(&link.failures[0], 1);
        let result = ended(push_check(&lane)).await;
        assert_eq!(matches!(result, Err(CallError::Protocol(_))), !is_kept, "{reply}: {result:?}");
        assert_eq!(link.is_up(), is_kept, "{reply}");
        assert_eq!(link.failures[0].load(Ordering::Relaxed), 1, "{reply}");
    }
}

#[tokio::test]
async fn a_request_is_sent_once_to_a_single_server_that_has_become_a_replica() {
    let (lane, calls) = connected("-READONLY You can't write against a read only replica.\r\n").await;
    let result = ended(push_check(&lane)).await;
    assert!(matches!(result, Err(CallError::Connection { .. })), "{result:?}");
    assert_eq!(calls.try_iter().count(), 1, "without a cluster there is no other node");
    assert!(!lane.shared.link.is_up(), "another connection is made");
}

#[tokio::test]
async fn a_reply_over_a_connection_that_was_given_up_is_not_taken() {
    for (kind, answer, cause) in [
        (ErrorKind::Client, "a reply", "a reply was not that of its call"),
        (ErrorKind::Io, "silent", "silent"),
    ] {
        let (lane, _calls) = connected("-ERR not here\r\n").await;
        let connection = lane.connections.to(NodeId::SINGLE).unwrap();
        let (request, reply) = check();
        let call = Call::of_requests(vec![request], Some(NodeId::SINGLE), &lane.shared).unwrap();
        connection.server.give_up();
        let answer = Err(RedisError::from((kind, answer)));
        assert!(matches!(lane.take_reply(&connection, call, answer, (0, now())), trip::Next::Ended));
        let told = ended(reply).await;
        let is_told = |error: &RedisError| error.to_string().starts_with(cause);
        assert!(matches!(&told, Err(CallError::Connection { error, .. }) if is_told(error)), "{told:?}");
    }
}

#[tokio::test]
async fn a_reply_shows_the_servers_clock() {
    const YEAR_2100: u32 = 4_102_444_800;
    let (lane, _calls) = connected("").await;
    let connection = lane.connections.to(NodeId::SINGLE).unwrap();
    let (request, reply) = check();
    let call = Call::of_requests(vec![request], Some(NodeId::SINGLE), &lane.shared).unwrap();
    // The instant, and a key without a state.
    let answer = [&(f64::from(YEAR_2100) * 1e6).to_le_bytes()[..], b"."].concat();
    let next = lane.take_reply(&connection, call, Ok(redis::Value::BulkString(answer)), (0, now()));
    assert!(matches!(next, trip::Next::Ended));
    assert!(ended(reply).await.is_ok());
    assert!(lane.shared.encoder.server_time() >= u64::from(YEAR_2100) * 1_000_000);
}

#[tokio::test]
async fn a_worker_without_a_connection_leaves_its_requests_to_the_store() {
    let (of_store, _calls) = connected("-ERR over the store's\r\n").await;
    let lane = of_worker(&of_store);
    // It connects in the background, to a server that takes one connection.
    let result = ended(push_check(&lane)).await;
    assert!(matches!(result, Err(CallError::Rejected(_))), "{result:?}");
}

#[test]
fn a_queue_whose_runtime_has_ended_keeps_nothing() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let lane = connecting(runtime.handle());
    let waiting = push_check(&lane);
    drop(runtime);
    for mut reply in [waiting, push_check(&lane)] {
        assert!(matches!(reply.try_recv(), Err(TryRecvError::Closed)));
    }
}

/// A worker whose runtime ends before the flush.
#[tokio::test]
async fn what_a_worker_leaves_behind_goes_to_the_store() {
    let (of_store, _calls) = connected("-ERR over the store's\r\n").await;
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let connections = Connections::of_worker(&of_store.connections, runtime.handle().clone());
    let lane = Lane::new(&of_store.shared, connections, Some(Arc::clone(&of_store)));
    let waiting = push_check(&lane);
    runtime.shutdown_background();
    for reply in [waiting, push_check(&lane)] {
        let result = ended(reply).await;
        assert!(matches!(result, Err(CallError::Rejected(_))), "{result:?}");
    }
}

/// The runtime of a worker drops what keeps its lane before it drops the flushes.
#[tokio::test]
async fn what_waits_in_a_lane_that_is_gone_goes_to_the_store() {
    let (of_store, _calls) = connected("-ERR over the store's\r\n").await;
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let connections = Connections::of_worker(&of_store.connections, runtime.handle().clone());
    let lane = Lane::new(&of_store.shared, connections, Some(Arc::clone(&of_store)));
    let waiting = push_check(&lane);
    drop(lane);
    let result = ended(waiting).await;
    assert!(matches!(result, Err(CallError::Rejected(_))), "{result:?}");
    runtime.shutdown_background();
}

#[tokio::test]
async fn a_connection_that_is_silent_for_three_calls_is_given_up_whatever_others_reply() {
    let (lane, _calls) = connected("").await;
    let link = &lane.shared.link;
    let connection = lane.connections.to(NodeId::SINGLE).unwrap();
    pause();
    for call in 1..=3 {
        // Two calls in one write, which are one failure.
        let command = GuardedCommand { command: Command::delete(&[b""; 0]), guard: Box::new(()) };
        lane.push(Queued::Command(QueuedCommand { command, hash_slot: 0, reply: None }));
        let reply = push_check(&lane);
        assert!(!connection.server.is_given_up(), "{call}");
        // While all tasks wait, the paused clock goes on to the deadline.
        assert!(matches!(ended(reply).await, Err(CallError::Timeout(_))), "{call}");
        assert_eq!(link.failures[0].load(Ordering::Relaxed), link.breaker.timeout_weight());
        // Another lane resets the breaker.
        link.breaker.reset(&link.failures[0], true);
    }
    assert!(connection.server.is_given_up() && !link.is_up());
}

#[tokio::test]
async fn a_call_is_not_sent_to_a_range_whose_breaker_has_opened() {
    let (lane, calls) = connected("").await;
    let reply = push_check(&lane);
    for _ in 0..3 {
        lane.shared.link.record_timeout(0, (1, None));
    }
    assert!(matches!(ended(reply).await, Err(CallError::Connection { .. })));
    assert!(calls.try_recv().is_err());
}

#[tokio::test]
async fn the_loss_of_a_connection_of_a_worker_says_nothing_about_the_store() {
    for is_worker in [true, false] {
        let (of_store, _calls) = connected("").await;
        let lane = if is_worker { of_worker(&of_store) } else { Arc::clone(&of_store) };
        let connection = of_store.connections.to(NodeId::SINGLE).unwrap();
        let (request, reply) = check();
        let call = Call::of_requests(vec![request], Some(NodeId::SINGLE), &lane.shared).unwrap();
        let lost = RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        let _ = lane.take_reply(&connection, call, Err(lost), (0, now()));
        let result = ended(reply).await;
        assert!(matches!(result, Err(CallError::Connection { .. })), "{result:?}");
        assert_eq!(lane.shared.link.is_up(), is_worker);
    }
}

#[tokio::test]
async fn the_loss_of_an_earlier_connection_keeps_the_present_one() {
    let (lane, _calls) = connected("").await;
    let earlier = lane.connections.to(NodeId::SINGLE).unwrap();
    mark_up(&lane.shared.link, 2);
    lane.connections.install(2, vec![(NodeId::SINGLE, connection("", mpsc::channel().0).await)]);
    lane.connections.lose(earlier.id);
    assert!(lane.connections.to(NodeId::SINGLE).is_some() && lane.shared.link.is_up());
}

#[test]
fn slots_of_one_node_share_a_queue() {
    let (one, other) = (0, 16_383);
    assert_ne!(range_of_slot(one), range_of_slot(other));
    let node = |index| Some(NodeId::of(index));
    assert_eq!(place_of(one, node(2)), place_of(other, node(2)));
    assert_ne!(place_of(one, node(2)), place_of(one, node(3)));
    assert_ne!(place_of(one, None), place_of(other, None), "the node is not known");
    assert!(place_of(one, node(64)) < SLOT_RANGES);
}
