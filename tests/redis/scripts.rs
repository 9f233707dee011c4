//! The Redis store against a real server: what it stores, what it costs, and what happens when the server misbehaves.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real waits")]

use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::poll;
use ratelimit_core::clock::{Clock, FakeClock};
use ratelimit_core::{
    Algorithm, Check, ConfigError, OnError, Outcome, Policy, RateLimiter, RedisStore, StoreError, Timestamp,
};
use redis::AsyncCommands;
use tests::outage::SLACK;
use tests::own_process::test_path;
use tests::proxy::{Mode, Proxy};
use tests::redis::{Server, server};
use tests::{ALGORITHMS, START};

/// Denies when the store cannot answer, so that an answer is the store's.
static MINUTE: Policy =
    Policy::builder("minute").max(3).window(Duration::from_secs(60)).on_error(OnError::Deny).build();

fn policy(algorithm: Algorithm, max: u64, window: Duration) -> Policy {
    Policy::builder("k").algorithm(algorithm).max(max).window(window).on_error(OnError::Deny).build()
}

fn clock() -> FakeClock {
    FakeClock::at(Timestamp::from_micros(START))
}

/// The only key that is stored.
async fn only_key(server: &Server) -> String {
    let keys: Vec<String> = server.raw().await.keys("*").await.unwrap();
    assert_eq!(keys.len(), 1, "{keys:?}");
    keys.into_iter().next().unwrap()
}

/// Asks until the limiter decides, for ten seconds at most.
async fn decides(limiter: &RateLimiter) -> bool {
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        if limiter.peek(&MINUTE, "probe").await.is_ok() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    false
}

/// The server's clock, in microseconds.
async fn time(server: &Server) -> u64 {
    let (seconds, micros): (u64, u64) =
        redis::cmd("TIME").query_async(&mut server.raw().await).await.unwrap();
    seconds * 1_000_000 + micros
}

#[tokio::test]
async fn the_server_clock_decides() {
    let Some(server) = server() else { return };
    let limiter = server.limiter();
    let window = Duration::from_millis(200);
    for algorithm in ALGORITHMS {
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

#[test]
fn a_test_without_its_server_is_skipped_visibly_and_fails_where_one_is_required() {
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
    let told = String::from_utf8_lossy(&skipped.stderr).into_owned();
    assert!(
        skipped.status.success() && told.contains(&format!("skipped: {name} needs redis-server")),
        "{told}"
    );
    let failed = run(true);
    let told = String::from_utf8_lossy(&failed.stdout).into_owned();
    assert!(!failed.status.success() && told.contains("REDIS_REQUIRED is set"), "{told}");
}

#[tokio::test]
async fn a_decision_is_one_call_and_a_denial_writes_nothing() {
    let Some(server) = server() else { return };
    let limiter = server.asking_limiter_at(&clock());
    for algorithm in ALGORITHMS {
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

/// The policies whose keys are looked at: every algorithm, and the counter with many counts.
fn every_layout(window: Duration) -> Vec<Policy> {
    let sub_windows = Policy::builder("k").max(1_000_000).window(window).sub_windows(60);
    let plain = ALGORITHMS.map(|algorithm| policy(algorithm, 1_000_000, window));
    plain.into_iter().chain([sub_windows.on_error(OnError::Deny).build()]).collect()
}

/// How long after an outcome the key of its limit is of no more use: that of a counter has counts until the window is over
/// that began at the end of the present sub-window.
fn is_of_use_for(policy: &Policy, told: &Outcome) -> Duration {
    if policy.algorithm() != Algorithm::SlidingWindowCounter {
        return told.reset_after();
    }
    let length = policy.window() / u32::try_from(policy.sub_windows()).unwrap();
    let length_us = u64::try_from(length.as_micros()).unwrap();
    policy.window() + Duration::from_micros(length_us - told.at().as_micros() % length_us)
}

/// Expects every key to live as long as what it holds may count and a second more, which is for a pause inside a script, and
/// hardly longer: one millisecond is for rounding. `since` is when the last of them was written.
async fn expect_lives(server: &Server, longest: Duration, told: &Outcome, since: Instant, case: &str) {
    const MARGIN: Duration = Duration::from_secs(1);
    let mut raw = server.raw().await;
    let keys: Vec<String> = raw.keys("rl1:*").await.unwrap();
    assert!(!keys.is_empty() || told.reset_after().is_zero(), "{case}: nothing is kept");
    for key in keys {
        let left: i64 = raw.pttl(&key).await.unwrap();
        let left = Duration::from_millis(
            u64::try_from(left).unwrap_or_else(|_| panic!("{case}: {key} lives for ever")),
        );
        let lived = since.elapsed() + Duration::from_millis(1);
        assert!(
            told.reset_after().is_zero() || left + lived >= told.reset_after() + MARGIN,
            "{case}: lives {left:?}, counts for {:?}",
            told.reset_after()
        );
        let most = longest + MARGIN + Duration::from_millis(1);
        assert!(left <= most, "{case}: lives {left:?}, of use for {longest:?}");
    }
}

#[tokio::test]
async fn every_key_lives_as_long_as_it_counts_and_hardly_longer() {
    // Under a test's clock every key lives an hour at least.
    const WINDOW: Duration = Duration::from_secs(400 * 3600);
    let Some(server) = server() else { return };
    let clock = clock();
    let limiter = server.limiter_at(&clock);
    let companion = Policy::builder("companion").max(1_000_000_000_000).window(WINDOW).build();
    for policy in every_layout(WINDOW) {
        let length = WINDOW / u32::try_from(policy.sub_windows()).unwrap();
        // By itself a limit may be judged all at once; in a group it is judged step by step.
        for in_group in [false, true] {
            let case = format!("{policy:?}, in a group: {in_group}");
            let checks = [Check::new(&policy, "a").cost(200_000), Check::new(&companion, "other")];
            let group = if in_group { &checks[..] } else { &checks[..1] };
            for step in 0..4 {
                let since = Instant::now();
                let outcome = limiter.check_all(group).await.unwrap();
                assert!(outcome.is_allowed(), "{case}");
                let told = &outcome.outcomes()[0];
                let _: () =
                    server.raw().await.del(other_keys(&server, "rl1:companion:").await).await.unwrap();
                let longest = is_of_use_for(&policy, told);
                expect_lives(&server, longest, told, since, &format!("{case}, step {step}")).await;
                if step == 2 {
                    // What is given back may be written anew.
                    clock.advance(length / 7);
                    limiter.refund(outcome.reservation(group).unwrap()).await.unwrap();
                    let left = limiter.peek(&policy, "a").await.unwrap();
                    expect_lives(&server, longest, &left, since, &format!("{case}, refund")).await;
                }
                // Into the next sub-window, and further into it each time.
                clock.advance(length * 8 / 7);
            }
            let _: () = redis::cmd("FLUSHALL").query_async(&mut server.raw().await).await.unwrap();
        }
    }
}

/// The keys that begin like this, and one that does not exist.
async fn other_keys(server: &Server, prefix: &str) -> Vec<String> {
    let mut keys: Vec<String> = server.raw().await.keys(format!("{prefix}*")).await.unwrap();
    keys.push("none".to_owned());
    keys
}

#[tokio::test]
async fn every_key_expires_by_the_servers_clock() {
    let Some(server) = server() else { return };
    let limiter = server.limiter();
    for policy in every_layout(Duration::from_secs(60)) {
        for cost in [200_000, 1] {
            let since = Instant::now();
            let told = limiter.check_n(&policy, "a", cost).await.unwrap();
            let longest = is_of_use_for(&policy, &told);
            expect_lives(&server, longest, &told, since, &format!("{policy:?}, cost {cost}")).await;
        }
        let _: () = redis::cmd("FLUSHALL").query_async(&mut server.raw().await).await.unwrap();
    }
}

#[tokio::test]
async fn a_caller_costs_little_memory() {
    let Some(server) = server() else { return };
    let clock = clock();
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

/// Puts something else where a caller's count is, and expects an error about that caller alone, until it has expired.
async fn expect_foreign(server: &Server, policy: &Policy, tamper: &[&str], case: &str) {
    let limiter = server.limiter();
    let mut raw = server.raw().await;
    let _ = limiter.check(policy, "a").await.unwrap();
    let key = only_key(server).await;
    if tamper[0] != "RPUSH+" {
        let _: () = raw.del(&key).await.unwrap();
    }
    let mut command = redis::cmd(tamper[0].trim_end_matches('+'));
    command.arg(&key);
    for argument in &tamper[1..] {
        // Bytes are written as in Rust, `\0`; the values under test need no other escape.
        command.arg(argument.as_bytes());
    }
    let _: redis::Value = command.query_async(&mut raw).await.unwrap();

    let error = limiter.check(policy, "a").await.expect_err(case);
    assert!(matches!(&error, StoreError::ForeignState { policy } if policy == "k"), "{case}: {error:?}");
    assert!(error.is_transient());
    let ttl: i64 = raw.pttl(&key).await.unwrap();
    assert!((1..=61_000).contains(&ttl), "{case}: lives {ttl} ms");
    assert!(limiter.check(policy, "b").await.unwrap().is_allowed(), "{case}: others are not affected");
    // In a group it is an error for the group, and charges nobody.
    let group = [Check::new(policy, "c"), Check::new(policy, "a")];
    assert!(limiter.check_all(&group).await.is_err(), "{case}");
    assert_eq!(limiter.peek(policy, "c").await.unwrap().remaining(), 2, "{case}");

    // Nor when it goes to the server together with others, in one call.
    let callers = ["d", "a", "e", "a", "f"];
    let answers = join_all(callers.map(|caller| limiter.check(policy, caller))).await;
    for (caller, answer) in callers.iter().zip(answers) {
        assert_eq!(answer.is_ok_and(|outcome| outcome.is_allowed()), *caller != "a", "{case}: {caller}");
    }

    // The window passes.
    let _: () = raw.del(&key).await.unwrap();
    assert!(limiter.check(policy, "a").await.unwrap().is_allowed(), "{case}");
    let _: () = redis::cmd("FLUSHALL").query_async(&mut raw).await.unwrap();
}

#[tokio::test]
async fn a_value_that_is_not_ours_is_an_error_for_that_caller_and_expires_after_one_window() {
    let Some(server) = server() else { return };
    for algorithm in ALGORITHMS {
        let policy = Policy::builder("k").algorithm(algorithm).max(2).on_error(OnError::Deny).build();
        for tamper in [
            &["SET", "not ours"][..],
            &["SET", ""],
            &["SET", "not ours", "PX", "10000000"],
            &["SET", "x234567890123"],
            &["RPUSH", "not ours"],
            &["RPUSH", "l", "x"],
            &["HSET", "a", "b"],
            &["SADD", "a"],
        ] {
            expect_foreign(&server, &policy, tamper, &format!("{algorithm} {tamper:?}")).await;
        }
    }
    // Right at the beginning and wrong further on.
    let log =
        Policy::builder("k").algorithm(Algorithm::SlidingWindowLog).max(2).on_error(OnError::Deny).build();
    let far = "\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7}";
    // Used, newest, first, skip, last, kept, and the last entries: base, width, and times since then.
    let header = |tag, used, newest, [first, skip, last, kept]: [char; 4], entries: &[&str]| {
        let zeros = "\0\0\0\0";
        let numbers = format!("{first}{zeros}{skip}{last}{zeros}{kept}{zeros}");
        format!("{tag}{used}{zeros}{newest}{numbers}{far}\0{}", entries.concat())
    };
    let (now, later, start) = ("\0\0\0\0\0", "\u{1}\0\0\0\0", ['\0'; 4]);
    for (case, header) in [
        ("log of another tag", header('m', '\u{1}', far, start, &[now])),
        ("log without units", header('l', '\0', far, start, &[now])),
        ("log with a short entry", header('l', '\u{2}', far, start, &[now, "x"])),
        ("log with an entry newer than its newest", header('l', '\u{2}', far, start, &[now, later])),
        ("log without its newest entry", header('l', '\u{1}', far, start, &[])),
        ("log that begins behind its end", header('l', '\u{1}', far, ['\u{1}', '\0', '\0', '\0'], &[now])),
        ("log that skips all entries", header('l', '\u{1}', far, ['\0', '\u{1}', '\0', '\0'], &[now])),
        ("log that has removed what is live", header('l', '\u{1}', far, ['\0', '\0', '\0', '\u{1}'], &[now])),
        ("log without its first node", header('l', '\u{2}', far, ['\0', '\0', '\u{1}', '\0'], &[now])),
    ] {
        expect_foreign(&server, &log, &["HSET", "h", &header], case).await;
        expect_foreign(&server, &log, &["HSET", "h", &header, "0:0", "x", "1:0", "y"], case).await;
    }
    let header = header('l', '\u{1}', far, start, &[now]);
    expect_foreign(&server, &log, &["HSET", "H", &header], "log without a header").await;
    let two = Policy::builder("k").max(2).sub_windows(2).on_error(OnError::Deny).build();
    let counts = "\0\0\0\0\0\0\0\0\0\0\u{32}\0\0\0\0\0\0\0\0\0";
    let counter = format!("c{far}{counts}");
    assert_eq!(counter.len(), 28);
    expect_foreign(&server, &two, &["SET", &counter], "counter whose sum is not that of its counts").await;
}

#[tokio::test]
async fn a_value_that_shows_late_that_it_is_not_ours_ends_no_call_of_others() {
    let Some(server) = server() else { return };
    let clock = clock();
    let limiter = server.limiter_at(&clock);
    let policy = Policy::builder("k").max(3).sub_windows(2).on_error(OnError::Deny).build();
    assert!(limiter.check(&policy, "bad").await.unwrap().is_allowed());
    // One unit now and one before, but five in the count that is to be their sum.
    let start = clock.now().as_micros() / 30_000_000 * 30_000_000;
    let mut value = b"c".to_vec();
    value.extend_from_slice(&start.to_le_bytes()[..7]);
    for count in [1u64, 0, 1, 5] {
        value.extend_from_slice(&count.to_le_bytes()[..5]);
    }
    let _: () = server.raw().await.set(only_key(&server).await, value).await.unwrap();
    // Of those about the bad value one may pass before the next is denied, which is when the sum is looked at; if that is in
    // the same call, neither does.
    let callers = ["a", "b", "bad", "bad", "c", "bad", "b"];
    let answers = join_all(callers.map(|caller| limiter.check(&policy, caller))).await;
    for (caller, answer) in callers.iter().zip(answers) {
        match answer {
            Ok(outcome) => assert!(outcome.is_allowed(), "{caller}"),
            Err(error) => {
                assert!(matches!(error, StoreError::ForeignState { .. }) && *caller == "bad", "{error}");
            }
        }
    }
    assert_eq!(limiter.peek(&policy, "b").await.unwrap().remaining(), 1, "charged once for each");
    let mut fails = false;
    for _ in 0..3 {
        fails |= limiter.check(&policy, "bad").await.is_err();
    }
    assert!(fails, "found at the latest when it denies");
}

#[tokio::test]
async fn a_long_way_to_the_server_delays_and_fails_nobody() {
    let Some(server) = server() else { return };
    let proxy = Proxy::before(server.port());
    // More than half of what a decision may take.
    proxy.set(Mode::Distance(Duration::from_millis(600)));
    let builder = RedisStore::builder(&proxy.url()).deadline(Duration::from_secs(1));
    let store = builder.connect_timeout(Duration::from_secs(10)).build().unwrap();
    let limiter = RateLimiter::with_redis(store);
    let policy = policy(Algorithm::SlidingWindowLog, 1_000, Duration::from_secs(60));
    // The server knows the script, which it would otherwise have to be told on a second way.
    assert!(server.limiter().check(&policy, "first").await.unwrap().is_allowed());
    assert!(decides(&limiter).await);
    let connections = proxy.accepted();
    let tasks = (0..50).map(|task: u64| {
        let (limiter, policy) = (limiter.clone(), policy.clone());
        async move {
            // Not all at once, so that they are not all in one call.
            tokio::time::sleep(Duration::from_millis(task * 7)).await;
            for _ in 0..3 {
                assert!(limiter.check(&policy, task.to_le_bytes()).await.unwrap().is_allowed());
            }
        }
    });
    join_all(tasks).await;
    assert_eq!(proxy.accepted(), connections);
}

#[tokio::test]
async fn who_leaves_before_his_turn_is_charged_nothing() {
    const MOST_UNDER_WAY: u64 = 64;
    let Some(server) = server() else { return };
    let proxy = Proxy::before(server.port());
    let url = proxy.url();
    let store = RedisStore::builder(&url).deadline(Duration::from_secs(60)).build().unwrap();
    let limiter = RateLimiter::with_redis(store);
    let policy = policy(Algorithm::SlidingWindowLog, 1_000, Duration::from_secs(60));
    assert!(decides(&limiter).await);
    let calls = async || server.info("commandstats", "cmdstat_evalsha:calls").await;
    let before = calls().await;
    proxy.set(Mode::Hold);
    // As many calls as may be under way, so that the next requests wait for their turn.
    let mut under_way = Vec::new();
    for sent in 0..MOST_UNDER_WAY {
        let mut request = Box::pin(limiter.check(&policy, "a"));
        assert!(poll!(request.as_mut()).is_pending());
        under_way.push(request);
        while calls().await <= before + sent {
            tokio::task::yield_now().await;
        }
    }
    let mut leaves = Box::pin(limiter.check(&policy, "a"));
    let mut stays = Box::pin(limiter.check(&policy, "a"));
    assert!(poll!(leaves.as_mut()).is_pending());
    assert!(poll!(stays.as_mut()).is_pending());
    drop(leaves);
    proxy.set(Mode::Pass);
    assert_eq!(stays.await.unwrap().remaining(), 1_000 - MOST_UNDER_WAY - 1);
}

#[tokio::test]
async fn who_waits_together_has_his_own_deadline() {
    const DEADLINE: Duration = Duration::from_secs(3);
    let Some(server) = server() else { return };
    let proxy = Proxy::before(server.port());
    let url = proxy.url();
    let limiter = RateLimiter::with_redis(RedisStore::builder(&url).deadline(DEADLINE).build().unwrap());
    let policy = Policy::builder("k").on_error(OnError::Deny).build();
    assert!(decides(&limiter).await);
    proxy.set(Mode::Swallow);
    // The first is under way when the others come, and they go out together when it has failed.
    let answers = join_all([0, 700, 1400].map(async |after: u64| {
        tokio::time::sleep(Duration::from_millis(after)).await;
        let asked = Instant::now();
        let answer = limiter.check(&policy, "a").await;
        (answer, asked.elapsed())
    }));
    for (answer, waited) in answers.await {
        assert!(matches!(answer, Err(StoreError::Timeout { .. })), "{answer:?}");
        assert!(waited >= DEADLINE && waited <= DEADLINE + SLACK, "{waited:?}");
    }
}

#[tokio::test]
async fn forgotten_scripts_are_sent_again_without_counting_twice() {
    let Some(server) = server() else { return };
    let limiter = server.limiter_at(&clock());
    let policy = policy(Algorithm::SlidingWindowLog, 50, Duration::from_secs(60));
    let mut raw = server.raw().await;
    for used in 1..=50 {
        let _: () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut raw).await.unwrap();
        assert_eq!(limiter.check(&policy, "a").await.unwrap().remaining(), 50 - used);
    }
    assert!(!limiter.check(&policy, "a").await.unwrap().is_allowed());
}

#[tokio::test]
async fn a_limiter_is_made_at_once_and_answers_in_time_without_a_server() {
    let Some(mut server) = server() else { return };
    let url = server.url();
    server.kill();
    let started = Instant::now();
    let limiter = RateLimiter::redis(&url).unwrap();
    let error = limiter.check(&MINUTE, "a").await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(error.is_transient());
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    server.restart();
    assert!(decides(&limiter).await, "connects by itself once there is a server");
}

#[tokio::test]
async fn a_killed_server_gives_errors_in_time_and_is_found_again() {
    let Some(mut server) = server() else { return };
    let limiter = RateLimiter::redis(&server.url()).unwrap();
    assert!(decides(&limiter).await);
    for _ in 0..3 {
        server.kill();
        let mut longest = Duration::ZERO;
        for _ in 0..50 {
            let asked = Instant::now();
            assert!(limiter.check(&MINUTE, "a").await.is_err());
            longest = longest.max(asked.elapsed());
        }
        println!("longest answer while dead: {longest:?}");
        assert!(longest < Duration::from_millis(100) + SLACK, "{longest:?}");
        server.restart();
        let back = Instant::now();
        assert!(decides(&limiter).await);
        println!("back after {:?}", back.elapsed());
    }
}

#[tokio::test]
async fn a_hung_server_gives_timeouts_and_is_used_again_when_it_goes_on() {
    let Some(server) = server() else { return };
    let store = RedisStore::builder(&server.url()).deadline(Duration::from_millis(100)).build().unwrap();
    let limiter = RateLimiter::with_redis(store);
    assert!(decides(&limiter).await);
    server.signal("STOP");
    let mut timeouts = 0;
    for _ in 0..5 {
        match limiter.check(&MINUTE, "a").await {
            Err(StoreError::Timeout { after }) => {
                assert_eq!(after, Duration::from_millis(100));
                timeouts += 1;
            }
            Err(StoreError::Unavailable(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(timeouts >= 3, "{timeouts}");
    server.signal("CONT");
    assert!(decides(&limiter).await);
}

#[tokio::test]
async fn a_connection_that_is_cut_is_replaced() {
    let Some(server) = server() else { return };
    let limiter = server.limiter();
    let mut raw = server.raw().await;
    for _ in 0..4 {
        assert!(decides(&limiter).await);
        let _: u64 = redis::cmd("CLIENT")
            .arg("KILL")
            .arg("TYPE")
            .arg("normal")
            .arg("SKIPME")
            .arg("yes")
            .query_async(&mut raw)
            .await
            .unwrap();
    }
    assert!(decides(&limiter).await);
}

#[tokio::test]
async fn a_password_that_comes_and_goes_does_not_end_the_connection_for_ever() {
    let Some(server) = server() else { return };
    // Database 1, because then connecting itself fails while the password is asked for.
    let limiter = RateLimiter::redis(&format!("{}1", server.url())).unwrap();
    assert!(decides(&limiter).await);
    let mut raw = server.raw().await;
    let set = async |raw: &mut redis::aio::MultiplexedConnection, password: &str| {
        let _: () =
            redis::cmd("CONFIG").arg("SET").arg("requirepass").arg(password).query_async(raw).await.unwrap();
    };
    set(&mut raw, "s3cret").await;
    let _: u64 = redis::cmd("CLIENT")
        .arg("KILL")
        .arg("TYPE")
        .arg("normal")
        .arg("SKIPME")
        .arg("yes")
        .query_async(&mut raw)
        .await
        .unwrap();
    let end = Instant::now() + Duration::from_secs(5);
    while limiter.check(&MINUTE, "a").await.is_ok() {
        assert!(Instant::now() < end, "still connected");
    }
    set(&mut raw, "").await;
    assert!(decides(&limiter).await);
}

#[test]
fn a_limiter_works_from_any_runtime_and_ends_with_its_last_handle() {
    let Some(server) = server() else { return };
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limiter = server.limiter();
    for left in [2, 1, 0] {
        let outcome = runtime().block_on(limiter.check(&MINUTE, "a")).unwrap();
        assert_eq!(outcome.remaining(), left);
    }
    // Not even a runtime is needed.
    let outcome = futures_util::future::FutureExt::boxed(limiter.check(&MINUTE, "a"));
    assert!(!pollster_like(outcome).unwrap().is_allowed());
    drop(limiter);
    let gone = tests::within(Duration::from_secs(5), || {
        runtime().block_on(async { server.info("clients", "connected_clients").await }) == 1
    });
    assert!(gone, "the connection outlives the limiter");
}

/// Runs a future on this thread, without a runtime.
fn pollster_like<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

#[tokio::test]
async fn a_user_with_few_permissions_is_enough() {
    let Some(server) = server() else { return };
    server.make_documented_user(None);
    let url = format!("redis://limiter:s3cret@127.0.0.1:{}/", server.port());
    let limiter = RateLimiter::redis(&url).unwrap();
    assert!(decides(&limiter).await);
    for algorithm in ALGORITHMS {
        let policy = policy(algorithm, 2, Duration::from_secs(60));
        let group = [Check::new(&policy, "a").cost(2)];
        let outcome = limiter.check_all(&group).await.unwrap();
        assert!(outcome.is_allowed());
        assert!(!limiter.check_all(&group).await.unwrap().is_allowed());
        limiter.refund(outcome.reservation(&group).unwrap()).await.unwrap();
        limiter.reset(&policy, "a").await.unwrap();
    }
    let elsewhere = RedisStore::builder(&url).prefix("elsewhere").build().unwrap();
    let elsewhere = RateLimiter::with_redis(elsewhere);
    let end = Instant::now() + Duration::from_secs(5);
    let reason = loop {
        // Without a reason while the first attempt is under way.
        let error = elsewhere.check(&MINUTE, "a").await.unwrap_err();
        if let Some(reason) = std::error::Error::source(&error) {
            break reason.to_string();
        }
        assert!(Instant::now() < end, "{error:?}");
    };
    assert!(reason.to_lowercase().contains("no permission") || reason.contains("NOPERM"), "{reason}");
}

#[test]
fn a_wrong_url_is_told_without_its_secrets() {
    for (url, expected) in [
        ("", "no scheme"),
        ("localhost:6379", "no scheme"),
        ("http://localhost:6379", "unknown scheme"),
        ("redis://localhost:6379/#insecure", "a fragment (`#..`) has no meaning here"),
        ("rediss://localhost:6379/#insecure", "a fragment (`#..`) has no meaning here"),
        ("redis-sentinel://localhost:26379/main#insecure", "a fragment (`#..`) has no meaning here"),
        ("redis-cluster://localhost:6379#insecure", "a fragment (`#..`) has no meaning here"),
        ("redis://:s3cret#more@localhost", "write a `#` in a password as `%23`"),
        ("memcached://:s3cret@localhost", "unknown scheme"),
        ("redis://:s3cret@localhost:70000/", "invalid port number"),
        ("redis://:s3cret@localhost:port/", "invalid port number"),
        ("redis://:s3cret@", "empty host"),
        ("redis://:s3cret@localhost/db", "Invalid database number"),
        ("redis://:s3cret@no-such-host.invalid:6379/", "does not resolve"),
        ("redis-sentinel://:s3cret@127.0.0.1:26379", "no service name"),
        ("redis-sentinel://:s3cret@127.0.0.1:26379/", "no service name"),
        ("redis-sentinel://:s3cret@127.0.0.1:port/main", "invalid port number"),
        ("redis-cluster://:s3cret@127.0.0.1:7000,:7001", "empty host"),
        ("redis-cluster://:s3cret@no-such-host.invalid:1,no-such-host.invalid:2", "does not resolve"),
    ] {
        let error = RateLimiter::redis(url).unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        let text = format!("{error}: {source} / {error:?} / {:?}", RedisStore::builder(url));
        assert!(text.contains(expected), "{url}: {text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
    let prefix = RedisStore::builder("redis://127.0.0.1/").prefix("{}").build().unwrap_err();
    assert!(matches!(prefix, ConfigError::Prefix));
}
