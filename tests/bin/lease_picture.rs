//! Draws what a lease does to one caller, from a run: `cargo run -p tests --bin lease-picture`. The picture in
//! `docs/leases.md` is its output.
//!
//! One process and one caller of a fixed window of 3000 units. The caller becomes hot, hotter, pauses, and reaches the limit.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is the report")]
#![allow(clippy::disallowed_methods, reason = "measures real time")]

use std::time::{Duration, Instant};

use ratelimit_core::{Algorithm, Policy, RateLimiter, RedisStore};
use tests::redis::{Server, server};

const MAX: u64 = 3_000;
/// Requests a second in each phase, and how many rows of the picture it lasts.
const PHASES: [(u64, u32); 5] = [(40, 2), (500, 4), (4_000, 4), (0, 4), (12_000, 6)];
const ROW: Duration = Duration::from_millis(50);

/// What happened in the time of one row.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    admitted: u64,
    denied: u64,
    calls: u64,
}

#[tokio::main]
async fn main() {
    let server = server().expect("the picture needs redis-server");
    let policy = Policy::builder("picture")
        .algorithm(Algorithm::FixedWindow)
        .max(MAX)
        .window(Duration::from_secs(86_400))
        .lease(Duration::from_millis(100))
        .build();
    let limiter = RateLimiter::new(RedisStore::builder(&server.url()).build().unwrap());
    while limiter.peek(&policy, "warm-up").await.is_err() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Its calls are not counted.
    let observer = RateLimiter::new(RedisStore::builder(&server.url()).build().unwrap());
    println!("   time  requests in 50 ms, one # for ten                                    calls  held");
    let (mut used, mut number) = (0, 0);
    for (rate, rows) in PHASES {
        for _ in 0..rows {
            let row = drive(&limiter, &policy, &server, rate).await;
            used += row.admitted;
            let charged = MAX - observer.peek(&policy, "a").await.unwrap().remaining();
            let bar = "#".repeat(usize::try_from(row.admitted.div_ceil(10)).unwrap());
            let what = match row {
                Row { admitted: 0, denied: 0, .. } => String::new(),
                Row { admitted, denied: 0, .. } => format!("{bar} {admitted}"),
                Row { admitted: 0, denied, .. } => format!("{denied} denied"),
                Row { admitted, denied, .. } => format!("{bar} {admitted}, {denied} denied"),
            };
            println!("{:4} ms  {what:68} {:6} {:5}", number * ROW.as_millis(), row.calls, charged - used);
            number += 1;
        }
    }
}

/// Requests at equal distances for one row.
async fn drive(limiter: &RateLimiter, policy: &Policy, server: &Server, rate: u64) -> Row {
    let before = calls(server).await;
    let (start, mut row) = (Instant::now(), Row::default());
    let wanted = rate * u64::try_from(ROW.as_millis()).unwrap() / 1_000;
    for number in 0..wanted {
        let due = ROW
            .mul_f64(f64::from(u32::try_from(number).unwrap()) / f64::from(u32::try_from(wanted).unwrap()));
        while start.elapsed() < due {
            tokio::task::yield_now().await;
        }
        if limiter.check(policy, "a").await.unwrap().is_allowed() {
            row.admitted += 1;
        } else {
            row.denied += 1;
        }
    }
    tokio::time::sleep(ROW.saturating_sub(start.elapsed())).await;
    row.calls = calls(server).await - before;
    row
}

/// The number of script calls so far.
async fn calls(server: &Server) -> u64 {
    server.info("commandstats", "cmdstat_evalsha:calls").await
}
