//! One of several processes with leases of the same counts; started by `outages/leases.rs`.
//!
//! Arguments: URL of the server, name of the files for its uses, number of processes, limit. The process
//! prints `ready`, and decides until it reads a line. It writes every decision to a file before the next
//! decision, so that a kill loses at most one decision for each task.
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

/// The clock of the machine, which is the server's clock as well. It is read before and after a use of a
/// leased unit, so that the replay does not depend on the instant that the limiter reports.
#[allow(clippy::disallowed_methods, reason = "the server's clock, to compare with")]
fn wall_clock() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

/// Makes bursts of requests for one count after another, with pauses, so that each count is sometimes hot and
/// sometimes idle. Each request costs one unit, so that it is charged at one instant.
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
            let decided_at = outcome.at().as_micros();
            let at = if verdict == Verdict::Leased {
                decided_at.clamp(before, after.max(before))
            } else {
                decided_at
            };
            let one = Use { at, count: u16::try_from(count).unwrap(), verdict };
            uses.write_all(&one.encode()).unwrap();
        }
        tokio::time::sleep(Duration::from_micros(random.below(3_000))).await;
    }
}
