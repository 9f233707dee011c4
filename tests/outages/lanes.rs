//! Each runtime asks over a connection of its own: what happens to it alone, and to runtimes that compute,
//! end, or lack something.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "real time is what is tested")]

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use ratelimit_core::{Algorithm, OnError, Policy, RateLimiter, RedisStore, RedisStoreBuilder};
use tests::log::Log;
use tests::own_process::in_own_process;
use tests::proxy::{Mode, Proxy};
use tests::redis::{Server, server};
use tokio::runtime::{Builder, Runtime};
use tracing::Level;

const SECOND: Duration = Duration::from_secs(1);

/// It fails closed, so an outcome comes from the store.
static STRICT: Policy = Policy::builder("strict")
    .max(1_000_000)
    .window(Duration::from_secs(3600))
    .algorithm(Algorithm::FixedWindow)
    .on_error(OnError::Deny)
    .build();

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn lanes(limiter: &RateLimiter) -> usize {
    limiter.store_status().connection.unwrap().lanes
}

/// Asks until the store has so many connections.
fn ask_until_connected(runtime: &Runtime, limiter: &RateLimiter, count: usize) {
    let connected = tests::within(30 * SECOND, || {
        let _ = runtime.block_on(limiter.check(&STRICT, "first"));
        lanes(limiter) >= count
    });
    assert!(connected, "{} connections", lanes(limiter));
}

/// A limiter, and runtimes with a connection each.
fn of_runtimes<const N: usize>(builder: RedisStoreBuilder) -> (RateLimiter, [Runtime; N]) {
    let limiter = RateLimiter::new(builder.connections(N + 1).build().unwrap());
    let mut count = 1;
    let runtimes = [(); N].map(|()| {
        let runtime = runtime();
        count += 1;
        ask_until_connected(&runtime, &limiter, count);
        runtime
    });
    (limiter, runtimes)
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

#[test]
fn a_runtime_whose_connection_is_cut_goes_on_and_the_store_keeps_its_own() {
    let Some(server) = server() else { return };
    let (limiter, [first, second, third]) =
        of_runtimes(RedisStore::builder(&server.url()).deadline(10 * SECOND));
    let before = clients(&server);
    assert_eq!(before.len(), 4, "one of each runtime, and that of the store");
    // The store's is the first.
    server.must(&format!("CLIENT KILL ID {}", before[2]));
    for runtime in [&first, &second, &third] {
        // A worker runs while it has no request.
        runtime.block_on(async { tokio::time::sleep(SECOND / 50).await });
        for _ in 0..20 {
            assert!(
                runtime.block_on(limiter.check(&STRICT, "a")).unwrap().is_allowed(),
                "an idle one costs no request"
            );
        }
    }
    ask_until_connected(&second, &limiter, 4);
    let after = clients(&server);
    assert_eq!((after.len(), before.iter().filter(|id| after.contains(id)).count()), (4, 3));
    assert_eq!(after[0], before[0], "the store's connection served on");
    assert_eq!(limiter.store_status().connection.unwrap().connections, 5);
}

#[test]
fn a_server_without_room_for_more_clients_serves_all_runtimes_over_one_connection() {
    in_own_process(|| {
        let Some(server) = server() else { return };
        let log = Log::of_process();
        let limiter = RateLimiter::new(RedisStore::builder(&server.url()).connections(5).build().unwrap());
        assert!(tests::within(30 * SECOND, || limiter.is_ready()));
        // The store's connection, and the one that sets the limit.
        server.must("CONFIG SET maxclients 1");
        let end = Instant::now() + 2 * SECOND;
        let worker = || {
            let runtime = runtime();
            while Instant::now() < end {
                assert!(runtime.block_on(limiter.check(&STRICT, "a")).unwrap().is_allowed());
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
    });
}

#[test]
fn a_worker_that_computes_takes_no_reply_for_late() {
    let Some(server) = server() else { return };
    let (limiter, [worker]) = of_runtimes(RedisStore::builder(&server.url()));
    for round in 0..30 {
        let decided = worker.block_on(async {
            let checks = join_all((0..8u8).map(|caller| {
                let limiter = limiter.clone();
                async move { limiter.check(&STRICT, [caller]).await.is_ok() }
            }));
            let computes = async {
                // The checks are on their way.
                tokio::task::yield_now().await;
                let end = Instant::now() + Duration::from_millis(150);
                while Instant::now() < end {
                    std::hint::spin_loop();
                }
            };
            tokio::join!(checks, computes).0
        });
        assert_eq!(decided, [true; 8], "round {round}");
    }
}

#[test]
fn a_runtime_that_ends_amid_calls_leaves_nothing_behind() {
    let Some(server) = server() else { return };
    let limiter = RateLimiter::new(
        RedisStore::builder(&server.url()).connections(4).deadline(10 * SECOND).build().unwrap(),
    );
    for round in 0..300u32 {
        let runtime = runtime();
        runtime.block_on(async {
            for _ in 0..3 {
                assert!(limiter.check(&STRICT, "a").await.is_ok(), "round {round}");
            }
            for caller in 0..4u8 {
                let limiter = limiter.clone();
                tokio::spawn(async move { limiter.check(&STRICT, [caller]).await.is_ok() });
            }
            if round % 2 == 0 {
                tokio::task::yield_now().await;
            }
        });
    }
    let is_left = || lanes(&limiter) == 1 && clients(&server).len() == 1;
    assert!(tests::within(10 * SECOND, is_left), "{} lanes, {:?}", lanes(&limiter), clients(&server));
    // Their places are free again.
    ask_until_connected(&runtime(), &limiter, 2);
}

#[test]
fn a_runtime_that_asks_once_costs_no_connection() {
    let Some(server) = server() else { return };
    let limiter = RateLimiter::new(RedisStore::builder(&server.url()).build().unwrap());
    assert!(tests::within(30 * SECOND, || limiter.is_ready()));
    runtime().block_on(async {
        assert!(limiter.check(&STRICT, "a").await.unwrap().is_allowed());
        // Long enough for a connection, which must not come.
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(lanes(&limiter), 1);
    });
}

#[test]
fn two_hundred_short_runtimes_share_the_bound() {
    let Some(server) = server() else { return };
    let limiter = RateLimiter::new(
        RedisStore::builder(&server.url()).connections(3).deadline(20 * SECOND).build().unwrap(),
    );
    for _ in 0..20 {
        let threads: Vec<_> = (0..10)
            .map(|_| {
                let limiter = limiter.clone();
                thread::spawn(move || {
                    let decided = runtime().block_on(async {
                        let mut decided = 0;
                        for _ in 0..20 {
                            decided += usize::from(limiter.check(&STRICT, "a").await.is_ok());
                        }
                        decided
                    });
                    assert_eq!(decided, 20);
                    assert!(lanes(&limiter) <= 3);
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    }
    let is_left = || clients(&server).len() == 1;
    assert!(tests::within(10 * SECOND, is_left), "{:?}", clients(&server));
}

#[test]
fn a_runtime_without_timers_or_io_asks_over_the_stores_connection() {
    let Some(server) = server() else { return };
    let limiter = RateLimiter::new(RedisStore::builder(&server.url()).deadline(10 * SECOND).build().unwrap());
    for builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let mut builder = builder;
        let bare = builder.build().unwrap();
        for _ in 0..20 {
            assert!(bare.block_on(limiter.check(&STRICT, "a")).unwrap().is_allowed());
        }
    }
    assert_eq!(lanes(&limiter), 1);
}

#[test]
fn one_connection_serves_all_runtimes_if_no_more_are_allowed() {
    let Some(server) = server() else { return };
    let limiter = RateLimiter::new(
        RedisStore::builder(&server.url()).connections(1).deadline(10 * SECOND).build().unwrap(),
    );
    for _ in 0..3 {
        let runtime = runtime();
        for _ in 0..20 {
            assert!(runtime.block_on(limiter.check(&STRICT, "a")).unwrap().is_allowed());
        }
    }
    assert_eq!(clients(&server).len(), 1);
}

#[test]
fn a_paused_server_and_a_killed_one_bound_the_wait_of_every_runtime() {
    let Some(mut server) = server() else { return };
    let (limiter, runtimes) = of_runtimes::<4>(RedisStore::builder(&server.url()));
    let slowest = |for_long: Duration| -> Duration {
        thread::scope(|scope| {
            let waits = runtimes.each_ref().map(|runtime| {
                let limiter = &limiter;
                scope.spawn(move || {
                    let (end, mut slowest) = (Instant::now() + for_long, Duration::ZERO);
                    while Instant::now() < end {
                        let start = Instant::now();
                        let _ = runtime.block_on(limiter.check(&STRICT, "a"));
                        slowest = slowest.max(start.elapsed());
                        thread::sleep(Duration::from_millis(2));
                    }
                    slowest
                })
            });
            waits.into_iter().map(|wait| wait.join().unwrap()).max().unwrap()
        })
    };
    let is_back = || runtimes.iter().all(|runtime| runtime.block_on(limiter.check(&STRICT, "a")).is_ok());
    server.must("CLIENT PAUSE 700 ALL");
    let waited = slowest(SECOND);
    assert!(waited < SECOND / 2, "paused: {waited:?}");
    assert!(tests::within(10 * SECOND, is_back), "not back after a pause");
    server.kill();
    let waited = slowest(SECOND / 2);
    assert!(waited < SECOND / 2, "killed: {waited:?}");
    server.restart();
    assert!(tests::within(10 * SECOND, is_back), "not back after a kill");
}

/// Another task of the thread computes before the lane's task runs.
#[test]
fn a_check_that_waits_for_its_thread_is_decided_by_redis() {
    let Some(server) = server() else { return };
    let (limiter, [worker]) = of_runtimes(RedisStore::builder(&server.url()));
    for computes in [60, 150, 400] {
        let decided = worker.block_on(async {
            let check = async { limiter.check(&STRICT, "a").await.is_ok() };
            let computing = async {
                let end = Instant::now() + Duration::from_millis(computes);
                while Instant::now() < end {
                    std::hint::spin_loop();
                }
            };
            tokio::join!(check, computing).0
        });
        assert!(decided, "{computes} ms");
    }
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

/// The thread waits for the answer by blocking, so that no task of its runtime runs.
#[test]
fn a_check_for_which_the_thread_of_its_runtime_blocks_is_decided_by_redis() {
    let Some(server) = server() else { return };
    // Pings an hour apart: only a new runtime wakes what watches them.
    let builder = || RedisStore::builder(&server.url()).ping_interval(3600 * SECOND);
    let (limiter, [worker]) = of_runtimes(builder());
    let check = || wait_by_blocking(limiter.check(&STRICT, "a"));
    for round in 0..5 {
        // In a callback that is not async.
        assert!(worker.block_on(async { check() }).unwrap().is_allowed(), "{round}");
        // Of a runtime that nothing drives at the moment.
        let _entered = worker.enter();
        assert!(check().unwrap().is_allowed(), "{round}");
    }
    let workers = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let limiter = RateLimiter::new(builder().build().unwrap());
    ask_until_connected(&workers, &limiter, 2);
    for round in 0..5 {
        let limiter = limiter.clone();
        let task = workers.spawn(async move {
            // More than a task may take of its runtime without yielding.
            (0..300).all(|_| wait_by_blocking(limiter.check(&STRICT, "a")).unwrap().is_allowed())
        });
        assert!(workers.block_on(task).unwrap(), "{round}");
    }
}

/// A check in flight, of which nothing reads the reply: the thread of its runtime waits for the check by
/// blocking, or for another thread that waits for one.
#[test]
fn a_check_ends_soon_after_its_deadline_although_nothing_drives_its_runtime() {
    let Some(server) = server() else { return };
    let (limiter, [worker]) = of_runtimes(RedisStore::builder(&server.url()));
    for sent_after in 0..20 {
        let start = Instant::now();
        worker.block_on(async {
            let mut check = pin!(limiter.check(&STRICT, "a"));
            let polled = futures_util::poll!(check.as_mut());
            assert!(polled.is_pending(), "it is queued: {polled:?}");
            for _ in 0..sent_after % 3 {
                tokio::task::yield_now().await;
            }
            let _ = wait_by_blocking(check);
        });
        assert!(start.elapsed() < 5 * SECOND, "{:?}", start.elapsed());
        worker.block_on(async {
            let other = {
                let (limiter, runtime) = (limiter.clone(), tokio::runtime::Handle::current());
                thread::spawn(move || drop(runtime.block_on(limiter.check(&STRICT, "a"))))
            };
            tokio::time::sleep(Duration::from_millis(1)).await;
            other.join().unwrap();
        });
        assert!(start.elapsed() < 10 * SECOND, "{:?}", start.elapsed());
    }
}

/// Its connection alone is silent: the others and the pings of the store get their replies.
#[test]
fn a_silent_connection_of_one_runtime_is_replaced() {
    let Some(server) = server() else { return };
    let proxy = Proxy::before(server.port());
    let limiter = RateLimiter::new(RedisStore::builder(&proxy.url()).connections(2).build().unwrap());
    let worker = runtime();
    ask_until_connected(&worker, &limiter, 2);
    let first = clients(&server)[0];
    proxy.swallow_newest(1);
    let end = Instant::now() + 30 * SECOND;
    let mut failed = 0;
    while worker.block_on(limiter.check(&STRICT, "a")).is_err() {
        // The store's connection is busy and fine.
        assert!(tests::within(10 * SECOND, || wait_by_blocking(limiter.check(&STRICT, "b")).is_ok()));
        failed += 1;
        assert!(Instant::now() < end, "the silent connection is kept");
    }
    assert!(failed > 0 && clients(&server)[0] == first, "{failed}");
    // The connection in its place has a count of its own.
    ask_until_connected(&worker, &limiter, 2);
    let connections = proxy.accepted();
    proxy.set(Mode::Hold);
    assert!(worker.block_on(limiter.check(&STRICT, "a")).is_err());
    proxy.set(Mode::Pass);
    let is_back = || worker.block_on(limiter.check(&STRICT, "a")).is_ok();
    assert!(tests::within(30 * SECOND, is_back) && is_back());
    assert_eq!((lanes(&limiter), proxy.accepted()), (2, connections), "given up for one late reply");
}

/// Its attempt hangs, or the server ends the connection as soon as it is made.
#[test]
fn requests_of_a_runtime_without_a_connection_of_its_own_do_not_dial_again_and_again() {
    let Some(server) = server() else { return };
    for hangs in [true, false] {
        let proxy = Proxy::before(server.port());
        let builder = RedisStore::builder(&proxy.url()).connections(2).connect_timeout(600 * SECOND);
        let limiter = RateLimiter::new(builder.deadline(10 * SECOND).build().unwrap());
        assert!(tests::within(30 * SECOND, || limiter.is_ready()));
        let (worker, before) = (runtime(), proxy.accepted());
        if hangs {
            proxy.swallow_new();
        } else {
            let others = clients(&server);
            ask_until_connected(&worker, &limiter, 2);
            let own = clients(&server).into_iter().find(|id| !others.contains(id)).unwrap();
            server.must(&format!("CLIENT KILL ID {own}"));
            let is_noticed = || {
                // A worker runs while it has no request.
                worker.block_on(async { tokio::time::sleep(SECOND / 1000).await });
                lanes(&limiter) == 1
            };
            assert!(tests::within(10 * SECOND, is_noticed));
        }
        let end = Instant::now() + SECOND / 5;
        while Instant::now() < end {
            assert!(worker.block_on(limiter.check(&STRICT, "a")).unwrap().is_allowed());
        }
        let dials = proxy.accepted() - before;
        assert!(dials <= 1, "hangs {hangs}: {dials} dials");
    }
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
    let (limiter, [_worker]) = of_runtimes(RedisStore::builder(&url));
    assert_eq!(lanes(&limiter), 2);
}
