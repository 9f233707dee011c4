//! Each worker asks over a connection of its own, and all others over that of the store: what happens to one
//! of these connections alone, and to runtimes that compute, block, end, or lack something.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "real time is what is tested")]

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::poll;
use ratelimit_core::{
    Algorithm, Breaker, Check, OnError, Policy, RateLimiter, RedisStore, RedisStoreBuilder,
};
use tests::lane::{Lane, lanes, until_connected};
use tests::log::Log;
use tests::own_process::in_own_process;
use tests::proxy::{Mode, Proxy};
use tests::redis::{Console, Server, server};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::yield_now;
use tracing::Level;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// They fail closed, so an outcome comes from the store.
static STRICT: Policy = Policy::builder("strict")
    .max(1_000_000)
    .window(HOUR)
    .algorithm(Algorithm::FixedWindow)
    .on_error(OnError::Deny)
    .build();
static LEASED: Policy = Policy::builder("leased")
    .max(1_000_000)
    .window(HOUR)
    .algorithm(Algorithm::FixedWindow)
    .lease(Duration::from_millis(100))
    .on_error(OnError::Deny)
    .build();
static TURNS: Policy =
    Policy::builder("turns").max(1_000).algorithm(Algorithm::TokenBucket).on_error(OnError::Deny).build();

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn workers() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A limiter with a connection.
fn limiter(builder: RedisStoreBuilder) -> RateLimiter {
    let limiter = RateLimiter::new(builder.build().unwrap());
    assert!(tests::within(30 * SECOND, || limiter.is_ready()), "no connection");
    limiter
}

/// A limiter, and workers with a connection each.
fn of_workers<const N: usize>(builder: RedisStoreBuilder) -> (RateLimiter, [Runtime; N]) {
    let limiter = limiter(builder.connections(N + 1));
    let mut count = 1;
    let workers = [(); N].map(|()| {
        let worker = runtime();
        count += 1;
        worker.block_on(until_connected(&limiter, count));
        worker
    });
    (limiter, workers)
}

/// The ids of the connections of clients, in the order in which they were made; without the one that asks.
fn clients(server: &Server) -> Vec<u64> {
    runtime().block_on(async {
        let mut raw = server.raw().await;
        let own: u64 = redis::cmd("CLIENT").arg("ID").query_async(&mut raw).await.unwrap();
        let list: String = redis::cmd("CLIENT").arg("LIST").query_async(&mut raw).await.unwrap();
        let id = |line: &str| line.strip_prefix("id=")?.split(' ').next()?.parse().ok();
        list.lines().filter_map(id).filter(|id| *id != own).collect()
    })
}

/// Polls a future on this thread, as an executor that knows no runtime.
fn wait_by_blocking<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let asleep = Instant::now();
        thread::park_timeout(30 * SECOND);
        assert!(asleep.elapsed() < 30 * SECOND, "never woken");
    }
}

// ---- Who has a lane ---------------------------------------------------------------------------------------

#[test]
fn a_check_that_is_not_of_a_worker_makes_no_lane() {
    let Some(server) = server() else { return };
    let limiter = limiter(RedisStore::builder(&server.url()).deadline(10 * SECOND));
    let check = async || {
        for _ in 0..50 {
            assert!(limiter.check(&STRICT, "a").await.unwrap().is_allowed());
        }
    };
    for runtime in [
        runtime(),
        workers(),
        // Without timers and IO.
        Builder::new_current_thread().build().unwrap(),
        Builder::new_multi_thread().worker_threads(2).build().unwrap(),
    ] {
        runtime.block_on(check());
        let task = {
            let limiter = limiter.clone();
            async move { limiter.check(&STRICT, "a").await.unwrap().is_allowed() }
        };
        assert!(runtime.block_on(runtime.spawn(task)).unwrap());
        let _entered = runtime.enter();
        wait_by_blocking(check());
    }
    wait_by_blocking(check());
    assert_eq!((lanes(&limiter), clients(&server).len()), (1, 1));
}

/// It may ask as a worker all the same.
#[test]
fn a_runtime_that_cannot_be_a_worker_is_served_by_the_store() {
    let Some(server) = server() else { return };
    let limiter = limiter(RedisStore::builder(&server.url()).deadline(10 * SECOND));
    let check = async || {
        for _ in 0..50 {
            assert!(Lane::Worker.check(&limiter, &STRICT, "a").await.unwrap().is_allowed());
        }
    };
    let runtimes = [
        workers(),
        // Without timers and IO.
        Builder::new_multi_thread().worker_threads(2).build().unwrap(),
        Builder::new_current_thread().build().unwrap(),
    ];
    for runtime in &runtimes {
        runtime.block_on(check());
    }
    wait_by_blocking(check());
    assert_eq!((lanes(&limiter), clients(&server).len()), (1, 1));
    // A lane would end with its runtime.
    drop(runtimes);
}

#[test]
fn one_connection_serves_all_workers_if_no_more_are_allowed() {
    let Some(server) = server() else { return };
    let limiter = limiter(RedisStore::builder(&server.url()).connections(1).deadline(10 * SECOND));
    for _ in 0..3 {
        let worker = runtime();
        for _ in 0..20 {
            assert!(worker.block_on(Lane::Worker.check(&limiter, &STRICT, "a")).unwrap().is_allowed());
        }
    }
    assert_eq!((lanes(&limiter), clients(&server).len()), (1, 1));
}

#[test]
fn two_hundred_short_workers_share_the_bound() {
    let Some(server) = server() else { return };
    let limiter = limiter(RedisStore::builder(&server.url()).connections(3).deadline(20 * SECOND));
    for _ in 0..20 {
        thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| {
                    runtime().block_on(async {
                        for _ in 0..20 {
                            let _ = Lane::Worker.check(&limiter, &STRICT, "a").await.unwrap();
                        }
                    });
                    assert!(lanes(&limiter) <= 3);
                });
            }
        });
    }
    let is_left = || (lanes(&limiter), clients(&server).len()) == (1, 1);
    assert!(tests::within(10 * SECOND, is_left), "{} lanes, {:?}", lanes(&limiter), clients(&server));
}

/// The documented user, without PING.
#[test]
fn a_user_who_may_not_ping_has_connections_for_all_workers() {
    let Some(server) = server() else { return };
    server.must(
        "ACL SETUSER limiter on >s3cret resetkeys ~rl1:* -@all +evalsha +eval +unlink +time +get +mget +set \
         +setrange +pttl +pexpire +hget +hset +hdel +select",
    );
    let url = server.url().replace("redis://", "redis://limiter:s3cret@");
    let (limiter, [_worker]) = of_workers(RedisStore::builder(&url));
    assert_eq!(lanes(&limiter), 2);
}

#[test]
fn a_server_without_room_for_more_clients_serves_all_workers_over_one_connection() {
    in_own_process(|| {
        let Some(server) = server() else { return };
        let log = Log::of_process();
        let builder = RedisStore::builder(&server.url()).connect_timeout(SECOND / 10);
        let limiter = limiter(builder.connections(5).deadline(10 * SECOND));
        // The store's connection, and the one that sets the limit.
        let mut console = server.console();
        console.must("CONFIG SET maxclients 1");
        let end = Instant::now() + 2 * SECOND;
        let worker = || {
            let worker = runtime();
            while Instant::now() < end {
                assert!(worker.block_on(Lane::Worker.check(&limiter, &STRICT, "a")).unwrap().is_allowed());
            }
        };
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(worker);
            }
        });
        assert_eq!(lanes(&limiter), 1);
        let lines = log.at(Level::WARN);
        let told = lines.iter().filter(|line| line.contains("no connection to Redis of its own")).count();
        assert_eq!(told, 1, "{lines:?}");
        // At 0, 0.2, 0.6 and 1.4 s each, and not each 0.1 s.
        let dials = stat(&mut console, "rejected_connections");
        assert!(dials <= 10, "{dials}");
    });
}

/// A number of `INFO stats`.
fn stat(console: &mut Console, name: &str) -> u32 {
    console.must("INFO stats");
    loop {
        if let Some((found, value)) = console.read().split_once(':')
            && found == name
        {
            return value.parse().unwrap();
        }
    }
}

#[test]
fn the_connections_of_all_lanes_are_pinged() {
    let Some(server) = server() else { return };
    let builder = RedisStore::builder(&server.url()).ping_interval(SECOND / 20);
    let (_limiter, workers) = of_workers::<2>(builder);
    let mut monitor = server.console();
    monitor.must("MONITOR");
    let (mut pinged, end) = (BTreeSet::new(), Instant::now() + 20 * SECOND);
    while pinged.len() < 3 {
        assert!(Instant::now() < end, "{pinged:?}");
        // The runtimes of the workers write their pings.
        for worker in &workers {
            worker.block_on(async { tokio::time::sleep(SECOND / 1_000).await });
        }
        // The time, the database and address of a client, and its command.
        if let Some((client, _)) = monitor.read().split_once("] \"PING\"") {
            pinged.insert(client.rsplit(' ').next().unwrap().to_owned());
        }
    }
}

// ---- What goes over which lane ----------------------------------------------------------------------------

/// What a worker asks of which the process remembers something, or that is no check by a worker.
async fn asks_of_the_store(limiter: &RateLimiter) {
    let allowed = |outcome: &ratelimit_core::GroupOutcome| outcome.is_allowed() && !outcome.is_degraded();
    let slots = Policy::concurrency("slots", 5);
    let leased = Check::new(&LEASED, "a");
    // More than is ever held.
    for group in [
        &[leased][..],
        &[leased.with_cost(50_000)],
        &[Check::new(&STRICT, "a"), leased],
        &[Check::new(&slots, "a")],
        &[Check::new(&STRICT, "a"), Check::new(&slots, "a")],
    ] {
        let outcome = Lane::Worker.check_all(limiter, group).await.unwrap();
        assert!(allowed(&outcome), "{group:?}: {outcome:?}");
    }
    let group = [Check::new(&STRICT, "a").with_cost(5)];
    for ends in ["refund", "settle"] {
        let reservation = limiter.check_all(&group).await.unwrap().reservation(&group).unwrap();
        match ends {
            "refund" => limiter.refund(reservation).await.unwrap(),
            _ => limiter.settle(reservation, 2).await.unwrap(),
        }
    }
    let _ = limiter.peek(&STRICT, "a").await.unwrap();
    let _ = limiter.check_up_to(&STRICT, "a", 5).await.unwrap();
    assert!(limiter.wait(&TURNS, "a", 1, HOUR).await.unwrap().is_allowed());
    limiter.reset(&STRICT, "a").await.unwrap();
}

#[test]
fn only_plain_checks_of_a_worker_go_over_its_connection() {
    let Some(server) = server() else { return };
    let first = limiter(RedisStore::builder(&server.url()).deadline(10 * SECOND));
    runtime().block_on(async {
        for _ in 0..5 {
            asks_of_the_store(&first).await;
        }
        assert_eq!((lanes(&first), clients_of(&server).await), (1, 1), "the worker has asked for nothing");
    });
    drop(first);

    // Of one of the two connections nothing arrives: of the worker's, which is the newest, or of the store's.
    for is_of_worker in [true, false] {
        let proxy = Proxy::before(server.port());
        let builder = RedisStore::builder(&proxy.url()).deadline(10 * SECOND).ping_interval(HOUR);
        let (limiter, [worker]) = of_workers(builder);
        let hasty = limiter.with_deadline(SECOND / 2);
        if is_of_worker {
            proxy.swallow_newest(1);
        } else {
            proxy.swallow_all_but_newest();
        }
        worker.block_on(async {
            if is_of_worker {
                asks_of_the_store(&limiter).await;
                // A worker's thread may ask by hand as well.
                assert!(limiter.check(&STRICT, "a").await.unwrap().is_allowed());
                assert!(Lane::Worker.check(&hasty, &STRICT, "a").await.is_err());
            } else {
                assert!(Lane::Worker.check(&limiter, &STRICT, "a").await.unwrap().is_allowed());
                assert!(hasty.check(&STRICT, "a").await.is_err());
                assert!(Lane::Worker.check(&hasty, &LEASED, "a").await.is_err());
            }
        });
        assert_eq!(proxy.accepted(), 2);
    }
}

/// How many connections of clients there are, besides that which asks.
async fn clients_of(server: &Server) -> u64 {
    server.info("clients", "connected_clients").await - 1
}

// ---- Runtimes that compute, block, rest or end ------------------------------------------------------------

/// The thread computes before the turn that would send its checks, or while they are on their way: for less
/// than the deadline, and for longer.
#[test]
fn a_runtime_that_computes_fails_no_check() {
    let Some(server) = server() else { return };
    let deadline = SECOND;
    let computes = |lane: Lane, yields: usize| {
        let (limiter, [runtime]) = of_workers(RedisStore::builder(&server.url()).deadline(deadline));
        runtime.block_on(async {
            for time in [deadline * 3 / 5, deadline * 3 / 2, deadline * 4] {
                let checks = join_all((0..8u8).map(|caller| lane.check(&limiter, &STRICT, [caller])));
                let computing = async {
                    for _ in 0..yields {
                        yield_now().await;
                    }
                    thread::sleep(time);
                };
                for outcome in tokio::join!(checks, computing).0 {
                    let outcome =
                        outcome.unwrap_or_else(|error| panic!("{lane:?}, {yields}, {time:?}: {error}"));
                    assert!(outcome.is_allowed());
                }
            }
        });
    };
    thread::scope(|scope| {
        for lane in Lane::BOTH {
            // Before its turn, before it is written, and before its reply is read.
            for yields in [0, 1, 2, 5] {
                scope.spawn(move || computes(lane, yields));
            }
        }
    });
}

/// A thread of a runtime waits for a check by blocking, so that no task of a runtime with one thread runs.
#[test]
fn a_check_for_which_the_thread_of_its_runtime_blocks_is_decided_by_redis() {
    let Some(server) = server() else { return };
    let (limiter, [worker]) = of_workers(RedisStore::builder(&server.url()).deadline(10 * SECOND));
    let check = || wait_by_blocking(limiter.check(&STRICT, "a"));
    for round in 0..20 {
        // In a callback that is not async.
        assert!(worker.block_on(async { check() }).unwrap().is_allowed(), "{round}");
        // In a runtime that nothing drives at the moment.
        let entered = worker.enter();
        assert!(check().unwrap().is_allowed(), "{round}");
        drop(entered);
        // After it was queued, or sent.
        worker.block_on(async {
            let mut check = pin!(limiter.check(&STRICT, "a"));
            // A reply may be there by now.
            let mut outcome = poll!(check.as_mut());
            for _ in 0..round % 4 {
                yield_now().await;
            }
            if outcome.is_pending() {
                outcome = Poll::Ready(wait_by_blocking(check));
            }
            assert!(matches!(outcome, Poll::Ready(Ok(outcome)) if outcome.is_allowed()), "{round}");
        });
        // Another thread waits for the check, and the thread of the runtime for that thread.
        worker.block_on(async {
            let (limiter, runtime) = (limiter.clone(), Handle::current());
            let other = thread::spawn(move || runtime.block_on(limiter.check(&STRICT, "a")));
            if round % 2 == 0 {
                yield_now().await;
            }
            assert!(other.join().unwrap().unwrap().is_allowed(), "{round}");
        });
    }
    let workers = workers();
    for round in 0..5 {
        let limiter = limiter.clone();
        let task = workers.spawn(async move {
            // More than a task may take of its runtime without yielding.
            (0..300).all(|_| wait_by_blocking(limiter.check(&STRICT, "a")).unwrap().is_allowed())
        });
        assert!(workers.block_on(task).unwrap(), "{round}");
    }
    assert_eq!(lanes(&limiter), 2);
}

/// Although a worker promises to go on. Nothing reads the reply, or sends the call.
#[test]
fn a_check_of_a_worker_whose_thread_blocks_ends() {
    let Some(server) = server() else { return };
    let breaker = Breaker::new().timeouts(1_000).errors(1_000);
    let (limiter, [worker]) = of_workers(RedisStore::builder(&server.url()).breaker(breaker));
    for yields in 0..8 {
        worker.block_on(async {
            let mut check = pin!(Lane::Worker.check(&limiter, &STRICT, "a"));
            assert!(poll!(check.as_mut()).is_pending(), "it is queued");
            for _ in 0..yields {
                yield_now().await;
            }
            // It panics if it is not woken for long.
            let _ = wait_by_blocking(check);
        });
    }
    // The others were not hurt.
    assert!(tests::within(30 * SECOND, || wait_by_blocking(limiter.check(&STRICT, "a")).is_ok()));
    let decides = || worker.block_on(Lane::Worker.check(&limiter, &STRICT, "a")).is_ok();
    assert!(tests::within(30 * SECOND, decides));
}

/// Nothing drives it between its checks, so nothing there sees that the server closes a connection.
#[test]
fn the_first_check_after_a_rest_of_its_runtime_is_decided_by_redis() {
    let Some(server) = server() else { return };
    let builder = RedisStore::builder(&server.url()).deadline(10 * SECOND).ping_interval(SECOND / 20);
    let (limiter, [worker]) = of_workers(builder);
    let of_worker = *clients(&server).last().unwrap();
    server.must("CONFIG SET timeout 1");
    let is_closed = || !clients(&server).contains(&of_worker);
    assert!(tests::within(30 * SECOND, is_closed), "the server keeps an idle connection");
    server.must("CONFIG SET timeout 0");
    assert!(tests::within(30 * SECOND, || limiter.is_ready()));
    assert!(worker.block_on(limiter.check(&STRICT, "a")).unwrap().is_allowed());
    // As a worker it asks over another one.
    worker.block_on(async {
        while lanes(&limiter) == 2 {
            yield_now().await;
        }
    });
    worker.block_on(until_connected(&limiter, 2));
}

#[test]
fn a_worker_that_ends_amid_calls_leaves_nothing_behind() {
    let Some(server) = server() else { return };
    let limiter = limiter(RedisStore::builder(&server.url()).connections(4).deadline(10 * SECOND));
    for round in 0..300u32 {
        runtime().block_on(async {
            // Some end before they have a connection.
            if round % 3 == 0 {
                until_connected(&limiter, 2).await;
            }
            for _ in 0..3 {
                assert!(Lane::Worker.check(&limiter, &STRICT, "a").await.is_ok(), "round {round}");
            }
            for caller in 0..4u8 {
                let limiter = limiter.clone();
                tokio::spawn(async move { Lane::Worker.check(&limiter, &STRICT, [caller]).await.is_ok() });
            }
            for _ in 0..round % 4 {
                yield_now().await;
            }
        });
    }
    let is_left = || (lanes(&limiter), clients(&server).len()) == (1, 1);
    assert!(tests::within(10 * SECOND, is_left), "{} lanes, {:?}", lanes(&limiter), clients(&server));
    // Their places are free again.
    runtime().block_on(until_connected(&limiter, 2));
}

#[test]
fn a_store_that_is_dropped_closes_the_connections_of_workers() {
    let Some(server) = server() else { return };
    let (limiter, [worker]) = of_workers(RedisStore::builder(&server.url()));
    drop(limiter);
    worker.block_on(async {
        let end = Instant::now() + 30 * SECOND;
        while clients_of(&server).await > 0 {
            assert!(Instant::now() < end, "a connection is kept");
        }
    });
}

// ---- Connections that are lost, silent or not made --------------------------------------------------------

#[test]
fn a_worker_whose_connection_is_cut_goes_on_and_the_others_keep_theirs() {
    let Some(server) = server() else { return };
    let (limiter, [first, second, third]) =
        of_workers(RedisStore::builder(&server.url()).deadline(10 * SECOND));
    let before = clients(&server);
    assert_eq!(before.len(), 4, "one of each worker, and that of the store");
    // The store's is the first.
    server.must(&format!("CLIENT KILL ID {}", before[2]));
    // A worker runs while it has no request.
    second.block_on(async {
        while lanes(&limiter) == 4 {
            yield_now().await;
        }
    });
    for worker in [&first, &second, &third] {
        for _ in 0..20 {
            let outcome = worker.block_on(Lane::Worker.check(&limiter, &STRICT, "a")).unwrap();
            assert!(outcome.is_allowed(), "an idle one costs no request");
        }
    }
    second.block_on(until_connected(&limiter, 4));
    let after = clients(&server);
    assert_eq!((after.len(), before.iter().filter(|id| after.contains(id)).count()), (4, 3));
    assert_eq!(after[0], before[0], "the store's connection served on");
    assert_eq!(limiter.store_status().connection.unwrap().connections, 5);
}

#[test]
fn a_stopped_server_and_a_killed_one_bound_the_wait_of_every_lane() {
    let Some(mut server) = server() else { return };
    let (limiter, workers) = of_workers::<3>(RedisStore::builder(&server.url()));
    let each = |check: &(dyn Fn(&Runtime, Lane) + Sync)| {
        thread::scope(|scope| {
            for worker in &workers {
                scope.spawn(move || Lane::BOTH.map(|lane| check(worker, lane)));
            }
        });
    };
    let ends = |worker: &Runtime, lane: Lane| {
        for _ in 0..100 {
            let start = Instant::now();
            assert!(worker.block_on(lane.check(&limiter, &STRICT, "a")).is_err());
            // Much longer than the deadline and its grace, for a busy machine.
            assert!(start.elapsed() < 10 * SECOND, "{lane:?}: {:?}", start.elapsed());
            thread::sleep(Duration::from_millis(2));
        }
    };
    let comes_back = |worker: &Runtime, lane: Lane| {
        let is_back = || worker.block_on(lane.check(&limiter, &STRICT, "a")).is_ok();
        assert!(tests::within(30 * SECOND, is_back), "{lane:?}");
    };
    server.signal("STOP");
    each(&ends);
    server.signal("CONT");
    each(&comes_back);
    server.kill();
    each(&ends);
    server.restart();
    each(&comes_back);
    for (worker, count) in workers.iter().zip(2..) {
        worker.block_on(until_connected(&limiter, count));
    }
}

/// Its connection alone is silent: the others and the pings of the store get their replies.
#[test]
fn a_silent_connection_of_one_worker_is_replaced() {
    let Some(server) = server() else { return };
    let proxy = Proxy::before(server.port());
    let (limiter, [worker]) = of_workers(RedisStore::builder(&proxy.url()));
    let first = clients(&server)[0];
    proxy.swallow_newest(1);
    let end = Instant::now() + 30 * SECOND;
    let mut failed = 0;
    while worker.block_on(Lane::Worker.check(&limiter, &STRICT, "a")).is_err() {
        // The store's connection is busy and fine.
        assert!(tests::within(10 * SECOND, || wait_by_blocking(limiter.check(&STRICT, "b")).is_ok()));
        failed += 1;
        assert!(Instant::now() < end, "the silent connection is kept");
    }
    assert!(failed > 0 && clients(&server)[0] == first, "{failed}");
    // The connection in its place has a count of its own.
    worker.block_on(until_connected(&limiter, 2));
    let connections = proxy.accepted();
    proxy.set(Mode::Hold);
    assert!(worker.block_on(Lane::Worker.check(&limiter, &STRICT, "a")).is_err());
    proxy.set(Mode::Pass);
    let is_back = || worker.block_on(Lane::Worker.check(&limiter, &STRICT, "a")).is_ok();
    assert!(tests::within(30 * SECOND, is_back) && is_back());
    assert_eq!((lanes(&limiter), proxy.accepted()), (2, connections), "given up for one late reply");
}

/// Its attempt hangs, or the server ends the connection as soon as it is made.
#[test]
fn requests_of_a_worker_without_a_connection_do_not_dial_again_and_again() {
    let Some(server) = server() else { return };
    for hangs in [true, false] {
        let proxy = Proxy::before(server.port());
        let builder = RedisStore::builder(&proxy.url()).connections(2).connect_timeout(600 * SECOND);
        let limiter = limiter(builder.deadline(10 * SECOND));
        let (worker, before) = (runtime(), proxy.accepted());
        if hangs {
            proxy.swallow_new();
        } else {
            let others = clients(&server);
            worker.block_on(until_connected(&limiter, 2));
            let own = clients(&server).into_iter().find(|id| !others.contains(id)).unwrap();
            server.must(&format!("CLIENT KILL ID {own}"));
            // A worker runs while it has no request.
            worker.block_on(async {
                while lanes(&limiter) == 2 {
                    yield_now().await;
                }
            });
        }
        for _ in 0..500 {
            assert!(worker.block_on(Lane::Worker.check(&limiter, &STRICT, "a")).unwrap().is_allowed());
        }
        let dials = proxy.accepted() - before;
        assert_eq!(dials, 1, "hangs {hangs}");
    }
}
