//! Decisions by script: whose clock counts, how many calls and writes they take, and how much memory.

use std::process::Command;
use std::time::Duration;

use ratelimit_core::{Algorithm, Check, Policy};
use tests::clock_at_start;
use tests::own_process::test_path;
use tests::redis::{Server, server};

use super::{MINUTE, only_key, policy};

#[tokio::test]
async fn the_server_clock_decides() {
    let Some(server) = server() else { return };
    let limiter = server.limiter();
    let window = Duration::from_millis(200);
    for &algorithm in Algorithm::ALL {
        let policy = policy(algorithm, 1, window);
        let group = [Check::new(&policy, algorithm.as_str())];
        let before = time(&server).await;
        let first = limiter.check_all(&group).await.unwrap();
        let (at, after) = (first.at().as_micros(), time(&server).await);
        assert!((before..=after).contains(&at), "{algorithm}: at {at}, between {before} and {after} us");
        let mut denied = limiter.check_all(&group).await.unwrap();
        // The fixed window may have ended between the two.
        while denied.is_allowed() {
            denied = limiter.check_all(&group).await.unwrap();
        }
        tokio::time::sleep(denied.retry_after().unwrap()).await;
        assert!(
            limiter.check_all(&group).await.unwrap().is_allowed(),
            "{algorithm}: passes after its retry_after"
        );
    }
}

/// The server's clock, in microseconds.
async fn time(server: &Server) -> u64 {
    let (seconds, micros): (u64, u64) =
        redis::cmd("TIME").query_async(&mut server.raw().await).await.unwrap();
    seconds * 1_000_000 + micros
}

#[test]
fn a_test_without_its_server_is_skipped_visibly_or_fails_where_required() {
    let name = test_path(module_path!(), "the_server_clock_decides");
    let run = |required: bool| {
        let mut test = Command::new(std::env::current_exe().unwrap());
        test.args(["--exact", &name]).env("REDIS_SERVER", "/no/such/server");
        if required {
            test.env("REDIS_REQUIRED", "1");
        } else {
            test.env_remove("REDIS_REQUIRED");
        }
        test.output().unwrap()
    };
    let skipped = run(false);
    let output = String::from_utf8_lossy(&skipped.stderr).into_owned();
    assert!(
        skipped.status.success() && output.contains(&format!("skipped: {name} needs redis-server")),
        "{output}"
    );
    let failed = run(true);
    let output = String::from_utf8_lossy(&failed.stdout).into_owned();
    assert!(!failed.status.success() && output.contains("REDIS_REQUIRED is set"), "{output}");
}

#[tokio::test]
async fn a_decision_is_one_call_and_a_denial_writes_nothing() {
    let Some(server) = server() else { return };
    let limiter = server.uncached_limiter_at(&clock_at_start());
    for &algorithm in Algorithm::ALL {
        let policy = policy(algorithm, 2, Duration::from_secs(60));
        let group = [Check::new(&policy, "a"), Check::new(&MINUTE, algorithm.as_str())];
        for _ in 0..2 {
            assert!(limiter.check_all(&group).await.unwrap().is_allowed());
        }
        let calls = server.info("commandstats", "cmdstat_evalsha:calls").await;
        let dirty = server.info("persistence", "rdb_changes_since_last_save").await;
        for _ in 0..10 {
            assert!(!limiter.check_all(&group).await.unwrap().is_allowed());
            let _ = limiter.peek_all(&group).await.unwrap();
        }
        assert_eq!(server.info("commandstats", "cmdstat_evalsha:calls").await, calls + 20, "{algorithm}");
        assert_eq!(server.info("persistence", "rdb_changes_since_last_save").await, dirty, "{algorithm}");
    }
}

#[tokio::test]
async fn flushed_scripts_are_sent_again_without_counting_twice() {
    let Some(server) = server() else { return };
    let limiter = server.limiter_at(&clock_at_start());
    let policy = policy(Algorithm::SlidingWindowLog, 50, Duration::from_secs(60));
    let mut raw = server.raw().await;
    for used in 1..=50 {
        let _: () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut raw).await.unwrap();
        assert_eq!(limiter.check(&policy, "a").await.unwrap().remaining(), 50 - used);
    }
    assert!(!limiter.check(&policy, "a").await.unwrap().is_allowed());
}

#[tokio::test]
async fn a_caller_costs_little_memory() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let limiter = server.limiter_at(&clock);
    let usage = async |server: &Server| -> u64 {
        let key = only_key(server).await;
        let mut raw = server.raw().await;
        let bytes =
            redis::cmd("MEMORY").arg("USAGE").arg(&key).arg("SAMPLES").arg(0).query_async(&mut raw).await;
        let _: () = redis::cmd("FLUSHALL").query_async(&mut raw).await.unwrap();
        bytes.unwrap()
    };
    let counter = Policy::new("user-api", 100, Duration::from_secs(60));
    for _ in 0..3 {
        let _ = limiter.check(&counter, "203.0.113.7").await.unwrap();
        clock.advance(Duration::from_secs(40));
    }
    let bytes = usage(&server).await;
    println!("two-window counter: {bytes} B a caller");
    assert!(bytes <= 128, "{bytes} B");
    for (entries, cost) in [(100, 1), (100, 200), (1000, 1), (1000, 60_000), (10_000, 1)] {
        let log = policy(Algorithm::SlidingWindowLog, 1_000_000_000, Duration::from_secs(3600));
        for _ in 0..entries {
            let _ = limiter.check_n(&log, "203.0.113.7", cost).await.unwrap();
            clock.advance(Duration::from_micros(1234));
        }
        let bytes = usage(&server).await;
        println!(
            "log of {entries} entries of {cost}: {bytes} B, {} B for each ten entries",
            bytes * 10 / entries
        );
        assert!(bytes <= 12 * entries, "{bytes} B for {entries} entries");
    }
}
