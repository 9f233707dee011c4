//! A process that makes a limiter and forks; started by `core/forks.rs` and `redis/forks.rs`.
//!
//! Arguments: the case, and what it needs. Each process prints what it finds, the child first.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is the report")]

use std::panic;
use std::pin::{Pin, pin};
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use fork::{Fork, fork, waitpid};
use futures_util::future::join_all;
use ratelimit_core::{Algorithm, Check, OnError, Policy, RateLimiter, RedisStore, StoreError, WaitError};
use tests::log::Log;
use tokio::runtime::{Builder, Runtime};
use tracing::Level;

/// Longest time in which a child does what it is for; far above what it takes.
const PATIENCE: Duration = Duration::from_secs(20);

const HOUR: Duration = Duration::from_secs(3600);

static TEN: Policy = Policy::builder("ten")
    .max(10)
    .window(HOUR)
    .algorithm(Algorithm::FixedWindow)
    .on_error(OnError::Deny)
    .build();

static TEN_LOCAL: Policy =
    Policy::builder("ten").max(10).window(HOUR).algorithm(Algorithm::FixedWindow).build();

static MANY: Policy =
    Policy::builder("many-units").max(1_000_000).window(HOUR).on_error(OnError::Deny).build();

static TWO_AT_A_TIME: Policy = Policy::concurrency("two", 2);

static MANY_AT_A_TIME: Policy = Policy::concurrency("many", 1000);

static TURNS: Policy = Policy::builder("turns")
    .algorithm(Algorithm::TokenBucket)
    .max(50)
    .window(Duration::from_secs(1))
    .burst(1)
    .build();

/// One turn each 400 ms: longer than a fork takes.
static SLOW_TURNS: Policy = Policy::builder("slow")
    .algorithm(Algorithm::TokenBucket)
    .max(5)
    .window(Duration::from_secs(2))
    .burst(1)
    .build();

static HOURLY_TURNS: Policy =
    Policy::builder("hourly").algorithm(Algorithm::TokenBucket).max(1).window(HOUR).build();

fn main() {
    // Also in a child, and while other threads go on.
    panic::set_hook(Box::new(|panic| {
        eprintln!("{panic}");
        exit(1);
    }));
    let arguments: Vec<String> = std::env::args().collect();
    let arguments: Vec<&str> = arguments[1..].iter().map(String::as_str).collect();
    match arguments[..] {
        ["calls", url] => calls(&redis(url)),
        ["own", url] => own_limiter(url),
        ["slot", url] => slot(url),
        ["drop amid work", url, forks] => drop_amid_work(url, forks.parse().unwrap()),
        ["make amid work", url, forks] => make_amid_work(url, forks.parse().unwrap()),
        ["wait"] => wait(&RateLimiter::in_memory()),
        ["amid a wait"] => fork_amid_a_wait(&RateLimiter::in_memory()),
        ["drop"] => drop_in_memory(&RateLimiter::in_memory()),
        _ => panic!("{arguments:?}"),
    }
}

fn redis(url: &str) -> RateLimiter {
    // Long, so that a busy machine is no outage.
    let store = RedisStore::builder(url).deadline(PATIENCE / 2).connect_timeout(PATIENCE / 2);
    RateLimiter::new(store.ping_interval(Duration::from_millis(1)).build().unwrap())
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Runs `child` in a child, and waits for its end.
fn in_child(child: impl FnOnce()) {
    match fork().unwrap() {
        Fork::Parent(pid) => assert_eq!(waitpid(pid).unwrap(), 0, "the child"),
        Fork::Child => {
            thread::spawn(|| {
                thread::sleep(PATIENCE);
                println!("hangs");
                exit(1);
            });
            child();
            exit(0);
        }
    }
}

/// Prints how many units are left behind a charge, whether the server has decided, and how often this process
/// has connected.
fn charge(limiter: &RateLimiter, policy: &Policy, name: &str) {
    match runtime().block_on(limiter.check(policy, "caller")) {
        Ok(outcome) => {
            let decided = if outcome.is_degraded() { "degraded" } else { "decided" };
            let connections = limiter.store_status().connection.unwrap().connections;
            println!("{name} {decided} {} {connections}", outcome.remaining());
        }
        Err(error) => println!("{name} {error}"),
    }
}

/// Each call of the parent's limiter in a child of a child, and the lines that it logs.
fn calls(limiter: &RateLimiter) {
    charge(limiter, &TEN, "parent");
    let group = [Check::new(&TEN, "caller")];
    let log = Log::of_process();
    let charged = || runtime().block_on(limiter.check_all(&group)).unwrap().reservation(&group).unwrap();
    let (refunded, settled) = (charged(), charged());
    in_child(|| {
        in_child(|| {
            let is_forked = |name: &str, result: Result<(), StoreError>| {
                assert!(matches!(result, Err(StoreError::Forked)), "{name}: {result:?}");
            };
            runtime().block_on(async {
                assert!(limiter.try_check(&TEN, "caller").unwrap().is_none());
                for policy in [&TEN, &TEN_LOCAL] {
                    is_forked("check", limiter.check(policy, "caller").await.map(drop));
                    is_forked("peek", limiter.peek(policy, "caller").await.map(drop));
                    is_forked("check_up_to", limiter.check_up_to(policy, "caller", 2).await.map(drop));
                    is_forked("reset", limiter.reset(policy, "caller").await);
                }
                is_forked("acquire", limiter.acquire(&TWO_AT_A_TIME, "caller").await.map(drop));
                is_forked("refund", limiter.refund(refunded).await);
                let waited = limiter.wait(&TURNS, "host", 1, PATIENCE).await;
                assert!(matches!(waited, Err(WaitError::Store(StoreError::Forked))), "{waited:?}");
                let settled = limiter.settle(settled, 7).await;
                assert!(settled.is_err());
            });
            assert!(!limiter.is_ready() && limiter.store_status().connection.is_none());
            println!("grandchild {}", log.at(Level::ERROR).join("|"));
        });
        let error = runtime().block_on(limiter.check(&TEN, "caller")).unwrap_err();
        println!("child {error}");
    });
    charge(limiter, &TEN, "parent");
}

/// A limiter that the child makes, beside that of its parent.
fn own_limiter(url: &str) {
    let mut limiter = Some(redis(url));
    charge(limiter.as_ref().unwrap(), &TEN, "parent");
    in_child(|| {
        in_child(|| charge(&redis(url), &TEN, "grandchild"));
        drop(limiter.take());
        charge(&redis(url), &TEN, "child");
    });
    charge(limiter.as_ref().unwrap(), &TEN, "parent");
}

fn slot(url: &str) {
    let acquire =
        |limiter: &RateLimiter| runtime().block_on(limiter.acquire(&TWO_AT_A_TIME, "caller")).unwrap();
    let held = acquire(&redis(url)).unwrap();
    in_child(|| {
        drop(held);
        let limiter = redis(url);
        let (first, second) = (acquire(&limiter), acquire(&limiter));
        println!("child {} {}", first.is_ok(), second.is_ok());
    });
}

/// Runs `in_children` while threads take and free slots, and look at all that the store keeps.
fn amid_work(limiter: &RateLimiter, forks: u32, in_children: impl Fn()) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                runtime().block_on(async {
                    while !is_over.load(Ordering::SeqCst) {
                        drop(join_all((0..20).map(|_| limiter.acquire(&MANY_AT_A_TIME, "caller"))).await);
                    }
                });
            });
        }
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                let _ = limiter.store_status();
            }
        });
        for _ in 0..forks {
            in_children();
        }
        is_over.store(true, Ordering::SeqCst);
    });
    println!("{forks} children have ended");
}

/// A child drops slots, a turn, and futures that began before the fork.
fn drop_amid_work(url: &str, forks: u32) {
    let limiter = redis(url);
    let _ = runtime().block_on(limiter.wait(&TURNS, "host", 1, PATIENCE)).unwrap();
    amid_work(&limiter, forks, || {
        let slots = runtime().block_on(limiter.acquire(&MANY_AT_A_TIME, "caller")).unwrap();
        let mut wait = Box::pin(limiter.wait(&TURNS, "host", 1, PATIENCE));
        let mut check = Box::pin(limiter.check(&MANY, "caller"));
        let context = &mut Context::from_waker(Waker::noop());
        let _ = (wait.as_mut().poll(context), check.as_mut().poll(context));
        in_child(|| drop((slots, wait, check)));
    });
}

/// A child makes a limiter, and waits for its answer and for turns.
fn make_amid_work(url: &str, forks: u32) {
    let limiter = redis(url);
    amid_work(&limiter, forks, || {
        in_child(|| {
            let limiter = redis(url);
            runtime().block_on(async {
                let outcome = limiter.check(&MANY, "caller").await.unwrap();
                assert!(outcome.is_allowed() && !outcome.is_degraded());
                for _ in 0..2 {
                    assert!(
                        limiter
                            .wait(&TURNS, std::process::id().to_string(), 1, PATIENCE)
                            .await
                            .unwrap()
                            .is_allowed()
                    );
                }
            });
        });
    });
}

fn wait(limiter: &RateLimiter) {
    let turns = || {
        runtime().block_on(async {
            for _ in 0..3 {
                let turn = limiter.wait(&TURNS, "host", 1, PATIENCE).await.unwrap();
                assert!(turn.is_allowed());
            }
        });
    };
    turns();
    in_child(|| {
        turns();
        println!("child has waited");
    });
    turns();
    println!("parent has waited");
}

/// The same task waits for the turn in both processes, as in an executor that goes on behind a fork.
fn fork_amid_a_wait(limiter: &RateLimiter) {
    struct Task {
        is_woken: AtomicBool,
    }
    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.is_woken.store(true, Ordering::SeqCst);
        }
    }
    let turn = || limiter.wait(&SLOW_TURNS, "host", 1, PATIENCE);
    assert!(runtime().block_on(turn()).unwrap().due_after().is_zero());
    let task = Arc::new(Task { is_woken: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&task));
    let mut turn = pin!(turn());
    let mut poll = || turn.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(poll().is_pending());
    let mut await_turn = || {
        while poll().is_pending() {
            while !task.is_woken.swap(false, Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
        }
    };
    in_child(|| {
        await_turn();
        println!("child has waited");
    });
    await_turn();
    println!("parent has waited");
}

/// A slot and a turn of the parent, and the task that waits for the turn, which a child drops.
fn drop_in_memory(limiter: &RateLimiter) {
    struct Task;
    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }
    let acquire = || runtime().block_on(limiter.acquire(&TWO_AT_A_TIME, "caller")).unwrap();
    let (held, _held) = (acquire().unwrap(), acquire().unwrap());
    let _ = runtime().block_on(limiter.wait(&HOURLY_TURNS, "host", 1, 2 * HOUR)).unwrap();
    let task = Arc::new(Task);
    let mut wait: Pin<Box<dyn Future<Output = _>>> =
        Box::pin(limiter.wait(&HOURLY_TURNS, "host", 1, 2 * HOUR));
    assert!(wait.as_mut().poll(&mut Context::from_waker(&Arc::clone(&task).into())).is_pending());
    let turns_left = || limiter.try_check(&HOURLY_TURNS, "host").unwrap().unwrap().retry_after().unwrap();
    let found = |name: &str| {
        let is_kept = turns_left() > HOUR;
        println!("{name} slot {} turn {is_kept} task {}", acquire().is_err(), Arc::strong_count(&task) - 1);
    };
    let mut of_parent = Some((held, wait));
    in_child(|| {
        drop(of_parent.take());
        found("child");
    });
    drop(of_parent);
    found("parent");
}
