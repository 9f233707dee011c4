//! One of several processes that wait for turns of the same bucket; started by `redis/waits.rs`.
//!
//! Arguments: URL of the server, number of waits. Says `ready`, waits for a line, waits for all turns at
//! once, and prints for each the instants at which it was decided and due, by the server's clock, and at
//! which it began, by the machine's.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is the report")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use ratelimit_core::{RateLimiter, RedisStore};

/// The clock of the machine, which is the server's clock as well.
#[allow(clippy::disallowed_methods, reason = "the server's clock, to compare with")]
fn wall_clock() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, url, waits] = &arguments[..] else { panic!("two arguments") };
    let store = RedisStore::builder(url).deadline(Duration::from_secs(60)).build().unwrap();
    let (limiter, policy) = (RateLimiter::new(store), tests::contention::turns());
    let _ = limiter.wait(&policy, "warm-up", 1, Duration::ZERO).await.unwrap();
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let turns = (0..waits.parse().expect("a number")).map(async |_: u32| {
        let turn = limiter.wait(&policy, "host", 1, Duration::from_secs(60)).await.unwrap();
        assert!(turn.is_allowed() && !turn.is_degraded());
        (turn.at(), turn.at().saturating_add(turn.due_after()), wall_clock())
    });
    for (at, due, began) in join_all(turns).await {
        println!("{} {} {}", at.as_micros(), due.as_micros(), began);
    }
}
