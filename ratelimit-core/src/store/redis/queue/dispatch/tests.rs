//! Tests of queues without a server.

use std::future::Future;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use redis::{ErrorKind, RedisError};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot::{self, Receiver};
use tokio::time::{sleep, timeout};

use super::super::request::Replied;
use super::super::request::tests::{check, check_of};
use super::*;
use crate::clock::FakeClock;
use crate::policy::Algorithm;
use crate::store::redis::breaker::Breaker;
use crate::store::redis::denial_cache::DenialCache;
use crate::store::redis::key::KeyFormat;
use crate::store::redis::lease::Leases;
use crate::store::redis::link::{ConnectionState, Link};
use crate::store::redis::protocol::Encoder;
use crate::store::redis::riders::Riders;
use crate::store::redis::server_clock::ServerClock;
use crate::store::redis::slots::SlotTable;
use crate::store::redis::timeouts::Timeouts;
use crate::store::redis::timeouts::tests::TIMEOUTS;
use crate::store::redis::topology::{RedisConnection, TlsRoots, Topology};

/// A queue of a store that is making its first connection. With `is_direct` the thread that asks sends.
fn connecting(runtime: &Handle, is_direct: bool) -> Arc<Queue> {
    let clock = Arc::new(FakeClock::default());
    let denials = Arc::new(DenialCache::new(Arc::clone(&clock) as _, Duration::ZERO));
    let leases = Arc::new(Leases::new(Arc::clone(&clock) as _, 0, false, denials));
    let server_clock = Arc::new(ServerClock::new());
    let (lanes, clock_of_link) = (Arc::clone(&leases.lanes), Arc::clone(&server_clock));
    let link = Link::new(None, TIMEOUTS, Breaker::new(), Vec::new(), lanes, clock_of_link);
    Queue::start(Arc::new(Shared {
        link: Arc::new(link),
        runtime: runtime.clone(),
        encoder: Arc::new(Encoder {
            key_format: KeyFormat::new("rl", "").unwrap(),
            now: Box::new(|| None),
            server_clock,
        }),
        riders: Riders { leases, slots: Arc::new(SlotTable::new(clock)) },
        is_direct,
    }))
}

/// Queues a request that is made now, with this deadline.
fn ask(queue: &Arc<Queue>, deadline: Duration) -> Receiver<Replied> {
    let (request, reply) = check();
    queue.push(QueuedRequest { deadline: Deadline::after(deadline), ..request });
    reply
}

/// Puts a request that is made now, with this deadline, into a call of its own, which is in flight from now on.
fn send(queue: &Arc<Queue>, deadline: Duration) -> Receiver<Replied> {
    let (request, reply) = check();
    let request = QueuedRequest { deadline: Deadline::after(deadline), ..request };
    let call = Call::of_requests(vec![request], Some(NodeId::SINGLE), &queue.shared).unwrap();
    call.progress.send_now(0);
    queue.add(BatchInFlight::new([call], 1, Instant::now(), None)).unwrap();
    reply
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

#[tokio::test(start_paused = true)]
async fn requests_wait_for_a_connection_in_their_order_until_their_deadline_or_its_failure() {
    let queue = connecting(&Handle::current(), true);
    let (mut replies, mut made) = (Vec::new(), Vec::new());
    // The second one has the shortest deadline.
    for deadline in [100, 20, 40, 100] {
        made.push(Instant::now());
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
    let start = Instant::now();
    let _reply = ask(&queue, 100 * MILLIS);
    for _ in 0..10 {
        yield_now().await;
    }
    assert!(queue.state.lock().stage == Stage::AwaitsConnection, "not sent");
    assert_eq!(Instant::now(), start);
}

/// Accepts one connection, and replies to each call with an error, and with `OK` to the client crate. Sends the keys of each call.
fn serve(listener: &TcpListener, calls: &mpsc::Sender<Vec<String>>) -> io::Result<()> {
    fn number(reader: &mut BufReader<TcpStream>, mark: &str) -> io::Result<usize> {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let number = line.trim_end().strip_prefix(mark).and_then(|number| number.parse().ok());
        number.ok_or_else(|| io::Error::other(line))
    }
    let mut stream = listener.accept()?.0;
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut arguments = Vec::new();
        for _ in 0..number(&mut reader, "*")? {
            let mut argument = vec![0; number(&mut reader, "$")? + 2];
            reader.read_exact(&mut argument)?;
            arguments.push(String::from_utf8_lossy(&argument[..argument.len() - 2]).into_owned());
        }
        if !arguments[0].starts_with("EVALSHA") {
            stream.write_all(b"+OK\r\n")?;
            continue;
        }
        let keys = arguments.into_iter().filter(|argument| argument.starts_with("rl1:"));
        // The test may have ended.
        let _ = calls.send(keys.collect());
        stream.write_all(b"-ERR not here\r\n")?;
    }
}

#[tokio::test]
async fn requests_that_waited_for_a_connection_are_sent_over_it_in_their_order() {
    const PATIENCE: Duration = Duration::from_secs(30);
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
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}/", listener.local_addr().unwrap());
    let (sender, calls) = mpsc::channel();
    thread::spawn(move || serve(&listener, &sender));
    let timeouts = Timeouts { connect: PATIENCE, ..TIMEOUTS };
    let mut topology = Topology::parse(&url, timeouts, &TlsRoots::default()).unwrap();
    let connection = topology.connect(timeouts).await.unwrap();
    assert!(matches!(connection, RedisConnection::Single(_)));
    let link = &queue.shared.link;
    link.generation.store(1, Ordering::Relaxed);
    link.state.send_replace(ConnectionState::Up { connection, generation: 1, suspect: false });
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
    let mut reply = send(&queue, link.deadline());
    let woken = Arc::new(WeightWhenWoken { link: Arc::clone(link), weight: AtomicU32::new(0) });
    let waker = Waker::from(Arc::clone(&woken));
    assert!(pin!(&mut reply).poll(&mut Context::from_waker(&waker)).is_pending());
    pass(link.deadline() + MILLIS).await;
    assert!(matches!(reply.try_recv(), Ok(Err(CallError::Timeout(_)))));
    assert_eq!(woken.weight.load(Ordering::Relaxed), link.breaker.timeout_weight());
}

#[tokio::test(start_paused = true)]
async fn the_alarm_is_set_again_for_each_call_in_flight() {
    let queue = connecting(&Handle::current(), true);
    let mut replies = [40, 20, 60].map(|deadline| send(&queue, deadline * MILLIS));
    for next in [1, 0, 2] {
        pass(19 * MILLIS).await;
        assert!(replies[next].try_recv().is_err(), "{next}: before its deadline");
        pass(MILLIS).await;
        assert!(matches!(replies[next].try_recv(), Ok(Err(CallError::Timeout(_)))), "{next}");
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
    assert!(queue.add(BatchInFlight::new(call, 1, Instant::now(), None)).is_none());
    assert_closed(reply);
    let (request, reply) = check();
    queue.await_connection(vec![request]);
    assert_closed(reply);
}

/// The request has no reply, and gets none.
fn assert_closed(mut reply: Receiver<Replied>) {
    assert!(matches!(reply.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
}
