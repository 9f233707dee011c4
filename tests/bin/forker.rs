//! A process that makes a limiter, forks, and uses the limiter in both; started by `core/forks.rs` and
//! `redis/forks.rs`.
//!
//! Arguments: the case, and what it needs. Each process prints what it finds, the child first.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is the report")]

use std::pin::pin;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use fork::{Fork, fork, waitpid};
use ratelimit_core::overrides::Overrides;
use ratelimit_core::{Algorithm, MemoryStore, OnError, Policy, RateLimiter, RedisStore};
use tokio::runtime::{Builder, Runtime};

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

static LEASED: Policy = Policy::builder("leased")
    .max(1000)
    .window(HOUR)
    .algorithm(Algorithm::FixedWindow)
    .lease(Duration::from_secs(10))
    .on_error(OnError::Deny)
    .build();

static TWO_AT_A_TIME: Policy = Policy::concurrency("two", 2);

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

static SHOP: Policy = Policy::new("shop", 10, HOUR);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let arguments: Vec<&str> = arguments[1..].iter().map(String::as_str).collect();
    match arguments[..] {
        ["check", url, first, on_error] => {
            check(&redis(url), first == "after", if on_error == "deny" { &TEN } else { &TEN_LOCAL });
        }
        ["lease", url] => lease(&redis(url)),
        ["slot", url] => slot(&redis(url)),
        ["wait"] => wait(&RateLimiter::in_memory()),
        ["amid a wait"] => fork_amid_a_wait(&RateLimiter::in_memory()),
        ["watch", path] => watch(path),
        _ => panic!("{arguments:?}"),
    }
}

fn redis(url: &str) -> RateLimiter {
    // Long, so that a busy machine is no outage.
    RateLimiter::new(
        RedisStore::builder(url).deadline(PATIENCE / 2).connect_timeout(PATIENCE / 2).build().unwrap(),
    )
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

fn check(limiter: &RateLimiter, is_used_before: bool, policy: &Policy) {
    if is_used_before {
        charge(limiter, policy, "parent");
    }
    in_child(|| {
        in_child(|| charge(limiter, policy, "grandchild"));
        charge(limiter, policy, "child");
    });
    charge(limiter, policy, "parent");
}

fn lease(limiter: &RateLimiter) {
    let admitted = |most: u64| {
        runtime().block_on(async {
            let mut admitted = 0;
            while admitted < most && limiter.check(&LEASED, "caller").await.unwrap().is_allowed() {
                admitted += 1;
            }
            admitted
        })
    };
    let before = admitted(300);
    let held = limiter.store_status().connection.unwrap().leases;
    println!("before {before} {held:?}");
    in_child(|| println!("child {}", admitted(u64::MAX)));
    println!("parent {}", admitted(u64::MAX));
}

fn slot(limiter: &RateLimiter) {
    let acquire = || runtime().block_on(limiter.acquire(&TWO_AT_A_TIME, "caller")).unwrap();
    let held = acquire();
    in_child(|| {
        drop(held);
        let (first, second) = (acquire(), acquire());
        println!("child {} {}", first.is_ok(), second.is_ok());
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

fn watch(path: &str) {
    let write = |max: u64| std::fs::write(path, format!("[limit.shop]\nmax = {max}\n")).unwrap();
    write(20);
    let overrides = Overrides::from_file(path).unwrap().watch();
    let limiter =
        RateLimiter::builder(MemoryStore::new()).policies([&SHOP]).overrides(overrides).unwrap().build();
    let await_max = |max| {
        while limiter.in_force(&SHOP).policy().max() != max {
            thread::sleep(Duration::from_millis(5));
        }
    };
    write(30);
    await_max(30);
    in_child(|| {
        // What was in the file when the parent began.
        write(20);
        await_max(20);
        write(40);
        await_max(40);
        println!("child has read");
    });
    await_max(40);
    println!("parent has read");
}
