//! Decisions by script: whose clock counts, how many calls and writes they take, and how much memory.

use std::process::Command;
use std::time::Duration;

use ratelimit_core::clock::Clock;
use ratelimit_core::{Algorithm, Check, Policy, Timestamp};
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
        let calls = server.script_calls().await;
        let dirty = server.info("persistence", "rdb_changes_since_last_save").await;
        for _ in 0..10 {
            assert!(!limiter.check_all(&group).await.unwrap().is_allowed());
            let _ = limiter.peek_all(&group).await.unwrap();
        }
        assert_eq!(server.script_calls().await, calls + 20, "{algorithm}");
        assert_eq!(server.info("persistence", "rdb_changes_since_last_save").await, dirty, "{algorithm}");
    }
}

/// Costs that are all equal take a shorter way through the script.
#[tokio::test]
async fn each_request_of_a_batch_is_charged_its_own_cost() {
    let Some(server) = server() else { return };
    // More requests than calls may go at once, as over a slow network.
    let costs = [2, 2, 2, 5, 1, 7, 3, 2].repeat(5);
    let limiter = server.uncached_limiter_at(&clock_at_start());
    // Loads the script.
    assert!(limiter.check(&MINUTE, "a").await.unwrap().is_allowed());
    for &algorithm in Algorithm::ALL {
        let policy = policy(algorithm, 10, Duration::from_secs(60));
        let callers: Vec<String> = (0..costs.len()).map(|caller| format!("{algorithm} {caller}")).collect();
        let calls = server.script_calls().await;
        let checks =
            callers.iter().zip(&costs).map(|(caller, &cost)| Check::new(&policy, caller).with_cost(cost));
        let checks: Vec<_> = checks.collect();
        let requests = checks.iter().map(|check| limiter.check_all(std::slice::from_ref(check)));
        let answers = server.join_in_batches(requests).await;
        assert!(answers.iter().all(|answer| answer.as_ref().unwrap().is_allowed()), "{algorithm}");
        let calls = server.script_calls().await - calls;
        assert!(calls < costs.len() as u64, "{algorithm}: {calls} calls");
        for (caller, &cost) in callers.iter().zip(&costs) {
            let peeked = limiter.peek(&policy, caller).await.unwrap();
            assert_eq!(peeked.remaining(), 10 - cost, "{algorithm} {caller}");
        }
    }
}

/// Where the costs together do not fit, the requests are judged one by one.
#[tokio::test]
async fn requests_of_a_batch_are_admitted_in_their_order_while_there_is_room() {
    const REQUESTS: usize = 8;
    let Some(server) = server() else { return };
    let limiter = server.uncached_limiter_at(&clock_at_start());
    for &algorithm in Algorithm::ALL {
        let policy = policy(algorithm, 4, Duration::from_secs(60));
        for callers in [["a", "a"], ["b", "c"]] {
            for caller in callers {
                assert!(limiter.check(&policy, format!("{algorithm} {caller}")).await.unwrap().is_allowed());
            }
            let requests = (0..REQUESTS).flat_map(|_| callers).map(|caller| format!("{algorithm} {caller}"));
            let answers = server.join_in_batches(requests.map(|caller| limiter.check(&policy, caller))).await;
            let allowed: Vec<bool> = answers.into_iter().map(|answer| answer.unwrap().is_allowed()).collect();
            let admitted = if callers[0] == callers[1] { 2 } else { 6 };
            let expected: Vec<bool> = (0..2 * REQUESTS).map(|request| request < admitted).collect();
            assert_eq!(allowed, expected, "{algorithm} {callers:?}");
        }
    }
}

#[tokio::test]
async fn a_peek_writes_nothing_even_if_the_clock_went_back() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let limiter = server.uncached_limiter_at(&clock);
    let mut raw = server.raw().await;
    for &algorithm in Algorithm::ALL {
        let policy = policy(algorithm, 4, Duration::from_secs(60));
        assert!(limiter.check(&policy, "a").await.unwrap().is_allowed());
        let key = only_key(&server).await;
        let now = clock.now();
        clock.set(Timestamp::from_micros(now.as_micros() - 3_600_000_000));
        let before: Vec<u8> = redis::cmd("DUMP").arg(&key).query_async(&mut raw).await.unwrap();
        let _ = limiter.peek(&policy, "a").await.unwrap();
        let after: Vec<u8> = redis::cmd("DUMP").arg(&key).query_async(&mut raw).await.unwrap();
        assert_eq!(before, after, "{algorithm}");
        clock.set(now);
        let _: () = redis::cmd("FLUSHALL").query_async(&mut raw).await.unwrap();
    }
}

/// Here the probe cannot see the library's name, as on a server without it.
#[tokio::test]
async fn the_probe_of_a_connection_names_a_library_that_the_server_lacks() {
    const PROBE: &str = include_str!("../../ratelimit-core/lua/probe.lua");
    let Some(server) = server() else { return };
    let mut raw = server.raw().await;
    let mut run = async |text: &str| -> redis::RedisResult<u64> {
        redis::Script::new(text).key("probe").invoke_async(&mut raw).await
    };
    assert!(run(PROBE).await.unwrap() > 0);
    let error = run(&format!("local struct\n{PROBE}")).await.unwrap_err().to_string();
    assert!(error.contains("'struct'"), "{error}");
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
    for (entries, cost) in [(100, 1), (100, 200), (1000, 60_000)] {
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
