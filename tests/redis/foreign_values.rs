//! Values of other programs at the keys of the limiter.

use futures_util::future::join_all;
use ratelimit_core::{Algorithm, Check, Mode, OnError, Policy, StoreError};
use redis::AsyncCommands;
use tests::clock_at_start;
use tests::redis::{Server, server};

use super::only_key;

/// Puts a foreign value at the key of a caller, and expects errors for that caller only, until the value has
/// expired.
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
    assert!(matches!(&error, StoreError::CorruptState { policy, .. } if policy == "k"), "{case}: {error:?}");
    assert!(error.is_transient());
    let ttl: i64 = raw.pttl(&key).await.unwrap();
    assert!((1..=61_000).contains(&ttl), "{case}: lives {ttl} ms");
    assert!(limiter.check(policy, "b").await.unwrap().is_allowed(), "{case}: others are not affected");
    // In a group it is an error for the whole group, and no count is charged.
    let group = [Check::new(policy, "c"), Check::new(policy, "a")];
    assert!(limiter.check_all(&group).await.is_err(), "{case}");
    assert_eq!(limiter.peek(policy, "c").await.unwrap().remaining(), 2, "{case}");

    // The same in one batch with checks of other callers.
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
async fn a_foreign_value_is_an_error_for_its_caller_and_expires_after_one_window() {
    let Some(server) = server() else { return };
    for &algorithm in Algorithm::ALL {
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
async fn a_refund_leaves_a_foreign_value_alone_and_reaches_the_limits_behind_it() {
    let Some(server) = server() else { return };
    let limiter = server.limiter_at(&clock_at_start());
    let mut raw = server.raw().await;
    for &algorithm in Algorithm::ALL {
        let policy = |key| Policy::builder(key).algorithm(algorithm).max(2).on_error(OnError::Deny).build();
        let [foreign, behind] = ["foreign", "behind"].map(policy);
        let group = [Check::new(&foreign, "a"), Check::new(&behind, "a")];
        let charged = limiter.check_all(&group).await.unwrap();
        let keys: Vec<String> = raw.keys("*foreign*").await.unwrap();
        let _: () = raw.del(&keys).await.unwrap();
        let _: () = raw.sadd(&keys[0], "not ours").await.unwrap();
        limiter.refund(charged.reservation(&group).unwrap()).await.unwrap();
        assert_eq!(limiter.peek(&behind, "a").await.unwrap().remaining(), 2, "{algorithm}");
        let kept: Vec<String> = raw.smembers(&keys[0]).await.unwrap();
        assert_eq!(kept, ["not ours"], "{algorithm}");
        let _: () = redis::cmd("FLUSHALL").query_async(&mut raw).await.unwrap();
    }
}

#[tokio::test]
async fn a_foreign_value_under_a_shadow_limit_fails_no_enforced_limit() {
    let Some(server) = server() else { return };
    let limiter = server.limiter_at(&clock_at_start());
    let mut raw = server.raw().await;
    for &algorithm in Algorithm::ALL {
        let enforced = Policy::builder("k").algorithm(algorithm).max(2).on_error(OnError::Deny).build();
        let shadow = Policy::builder("k").algorithm(algorithm).max(9).on_error(OnError::Deny);
        let shadow = shadow.mode(Mode::Shadow).build();
        let _ = limiter.check(&shadow, "a").await.unwrap();
        let _: () = raw.set(only_key(&server).await, "not ours").await.unwrap();
        for left in [1, 0] {
            let group = [Check::new(&shadow, "a"), Check::new(&enforced, "a")];
            let outcome = limiter.check_all(&group).await.unwrap();
            assert!(outcome.is_allowed() && outcome.outcomes()[0].is_shadow(), "{algorithm}");
            assert_eq!(outcome.outcomes()[1].remaining(), left, "{algorithm}");
        }
        let group = [Check::new(&enforced, "a"), Check::new(&shadow, "a")];
        assert!(!limiter.check_all(&group).await.unwrap().is_allowed(), "{algorithm}");
        assert!(limiter.check(&shadow, "a").await.unwrap().is_degraded(), "{algorithm}: alone");
        let _: () = redis::cmd("FLUSHALL").query_async(&mut raw).await.unwrap();
    }
}
