//! One of several processes that hold slots of the same callers; started by `outages/slots/`.
//!
//! Arguments: URL of the server, name of its file, callers, limit, tasks, and the longest stream in
//! milliseconds. Says `ready`, and takes and frees slots until it is told to stop. Each begin and end is
//! written to the file at once: the begin when the slot is held, and the end before it is freed.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is the report")]

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratelimit_core::{RateLimiter, RedisStore};
use tests::holders::{Mark, caller, now, policy};
use tests::random::Random;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, url, file, numbers @ ..] = &arguments[..] else { panic!("arguments") };
    let numbers: Vec<u64> = numbers.iter().map(|number| number.parse().unwrap()).collect();
    let [callers, max, tasks, longest] = numbers[..] else { panic!("four numbers") };
    let limiter = RateLimiter::new(RedisStore::builder(url).build().unwrap());
    while !limiter.is_ready() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    println!("ready");
    let (ends, marks) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(File::create(file).unwrap())));
    let tasks: Vec<_> = (0..tasks)
        .map(|task| {
            let (limiter, ends, marks) = (limiter.clone(), Arc::clone(&ends), Arc::clone(&marks));
            let random = Random(u64::from(std::process::id()) << 16 | task);
            tokio::spawn(hold(limiter, callers, max, longest, random, ends, marks))
        })
        .collect();
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await.unwrap().unwrap();
    ends.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
}

async fn hold(
    limiter: RateLimiter,
    callers: u64,
    max: u64,
    longest: u64,
    mut random: Random,
    ends: Arc<AtomicBool>,
    marks: Arc<Mutex<File>>,
) {
    let policy = policy(max);
    let note = |mark: Mark| marks.lock().unwrap().write_all(&mark.encode()).unwrap();
    while !ends.load(Ordering::Relaxed) {
        let number = random.below(callers);
        if let Ok(Ok(slot)) = limiter.acquire(&policy, caller(number)).await {
            note(Mark { at: now(), caller: number, begins: true });
            // Most are short, and some are streams.
            let longest = if random.below(8) == 0 { longest } else { longest.min(200) };
            tokio::time::sleep(Duration::from_millis(random.below(longest))).await;
            note(Mark { at: now(), caller: number, begins: false });
            drop(slot);
        }
        tokio::time::sleep(Duration::from_micros(random.below(20_000))).await;
    }
}
