//! One of several processes that decide about the same counts at the same time; started by
//! `core/concurrency.rs`.
//!
//! Arguments: URL of the server, number of the run, limit, tasks, decisions. Says `ready`, waits for a line,
//! decides, and prints for each count the number of checks and of those that passed.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is the report")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratelimit_core::{RateLimiter, RedisStore};
use tests::contention::{CALLERS, caller, counts, policies};

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, url, run, max, tasks, decisions] = &arguments[..] else { panic!("five arguments") };
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let (run, max, tasks, decisions) = (number(run), number(max), number(tasks), number(decisions));
    let store = RedisStore::builder(url).deadline(Duration::from_secs(60)).build().unwrap();
    let limiter = RateLimiter::new(store);
    let (policies, counts) = (Arc::new(policies(max)), counts());
    let _ = limiter.peek(&policies[0], "warm-up").await.unwrap();
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();

    let tallies: Arc<Vec<[AtomicU64; 2]>> = Arc::new((0..counts).map(|_| Default::default()).collect());
    let contenders: Vec<_> = (0..tasks)
        .map(|task| {
            let (limiter, policies, tallies) = (limiter.clone(), Arc::clone(&policies), Arc::clone(&tallies));
            tokio::spawn(async move {
                // This task's share; all tasks go through the counts in the same order, so that they meet at
                // each.
                for decision in (task..decisions).step_by(usize::try_from(tasks).unwrap()) {
                    let count = usize::try_from(decision / tasks).unwrap() % counts;
                    let policy = &policies[count / CALLERS];
                    let outcome = limiter.check(policy, caller(run, count % CALLERS)).await.unwrap();
                    tallies[count][0].fetch_add(1, Ordering::Relaxed);
                    tallies[count][1].fetch_add(u64::from(outcome.is_allowed()), Ordering::Relaxed);
                }
            })
        })
        .collect();
    for contender in contenders {
        contender.await.unwrap();
    }
    for [checks, passed] in tallies.iter() {
        println!("{} {}", checks.load(Ordering::Relaxed), passed.load(Ordering::Relaxed));
    }
}
