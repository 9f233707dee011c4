//! One of several processes that hold leases of the same counts; started by `outages/leases.rs`.
//!
//! Arguments: URL of the server, name of the files for its uses, processes, limit. Says `ready`, decides
//! until it is told to stop. Every decision is written to a file before the next one is made, so that a kill
//! loses at most one for each task.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is the report")]

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ratelimit_core::RateLimiter;
use tests::lessees::{CALLERS, Use, Verdict, caller, limiter, policies};
use tests::random::Random;

const TASKS: u64 = 8;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, url, file, processes, max] = &arguments[..] else { panic!("four arguments") };
    let (processes, max): (u32, u64) = (processes.parse().unwrap(), max.parse().unwrap());
    let limiter = limiter(url, processes);
    while !limiter.is_ready() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    println!("ready");
    let ends = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let ends = Arc::clone(&ends);
            let uses = File::create(format!("{file}.{task}")).unwrap();
            let random = Random(u64::from(std::process::id()) << 8 | task);
            tokio::spawn(decide(limiter.clone(), max, uses, random, ends))
        })
        .collect();
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await.unwrap().unwrap();
    ends.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
}

/// The clock of the machine, by which the server decides as well. A use of a held unit is noted between two
/// readings of it, so that the replay does not depend on the instant that the limiter reports.
#[allow(clippy::disallowed_methods, reason = "the server's clock, to compare with")]
fn wall_clock() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

/// One unit each: a request of several units may use some at an instant and be charged others at a later one,
/// and reports the later. Bursts of requests for one count after another, with pauses, so that each count is
/// now hot and now idle.
async fn decide(limiter: RateLimiter, max: u64, mut uses: File, mut random: Random, ends: Arc<AtomicBool>) {
    let policies = policies(max);
    while !ends.load(Ordering::Relaxed) {
        let count = random.index(policies.len() * CALLERS);
        let (policy, caller) = (&policies[count / CALLERS], caller(count % CALLERS));
        for _ in 0..=random.below(400) {
            let before = wall_clock();
            let leased = limiter.try_check(policy, &caller).unwrap();
            let after = wall_clock();
            let verdict = if leased.is_some() { Verdict::Leased } else { Verdict::Charged };
            let outcome = match leased {
                Some(outcome) => Ok(outcome),
                None => limiter.check(policy, &caller).await,
            };
            let Ok(outcome) = outcome else { continue };
            let verdict = if outcome.is_allowed() { verdict } else { Verdict::Denied };
            let told = outcome.at().as_micros();
            let at = if verdict == Verdict::Leased { told.clamp(before, after.max(before)) } else { told };
            let one = Use { at, count: u16::try_from(count).unwrap(), verdict };
            uses.write_all(&one.encode()).unwrap();
        }
        tokio::time::sleep(Duration::from_micros(random.below(3_000))).await;
    }
}
