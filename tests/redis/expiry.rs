//! How long keys live: as long as what they hold may count, and hardly longer.

use std::time::{Duration, Instant};

use ratelimit_core::clock::FakeClock;
use ratelimit_core::policy::Calendar;
use ratelimit_core::{Algorithm, Check, OnError, Outcome, Policy, StoreError, Timestamp};
use redis::AsyncCommands;
use tests::algorithms::shapes;
use tests::clock_at_start;
use tests::redis::{Server, server};

/// The policies whose keys are looked at: every algorithm, and the counter with many counts.
fn every_layout(window: Duration) -> Vec<Policy> {
    shapes(Policy::builder("k").max(1_000_000).window(window).on_error(OnError::Deny), 60)
}

/// How long after an outcome the key of its limit is of use. A counter keeps counts until the end of the
/// window that begins at the end of the present sub-window.
fn is_of_use_for(policy: &Policy, outcome: &Outcome) -> Duration {
    if policy.algorithm() != Algorithm::SlidingWindowCounter {
        return outcome.reset_after();
    }
    let length = policy.window() / u32::try_from(policy.sub_windows()).unwrap();
    let length_us = u64::try_from(length.as_micros()).unwrap();
    policy.window() + Duration::from_micros(length_us - outcome.at().as_micros() % length_us)
}

/// Expects every key to live as long as its state may count and one second more, which is for a pause inside
/// a script, and less than two milliseconds longer. `since` is when the last of them was written.
async fn expect_lives(server: &Server, longest: Duration, outcome: &Outcome, since: Instant, case: &str) {
    const MARGIN: Duration = Duration::from_secs(1);
    // The script rounds the TTL up, and PTTL subtracts the server's clock rounded down, each to a whole
    // millisecond.
    const ROUNDING: Duration = Duration::from_millis(2);
    let mut raw = server.raw().await;
    let keys: Vec<String> = raw.keys("rl1:*").await.unwrap();
    assert!(!keys.is_empty() || outcome.reset_after().is_zero(), "{case}: nothing is kept");
    for key in keys {
        let left: i64 = raw.pttl(&key).await.unwrap();
        let left = Duration::from_millis(
            u64::try_from(left).unwrap_or_else(|_| panic!("{case}: {key} lives for ever")),
        );
        let lived = since.elapsed() + Duration::from_millis(1);
        assert!(
            outcome.reset_after().is_zero() || left + lived >= outcome.reset_after() + MARGIN,
            "{case}: lives {left:?}, counts for {:?}",
            outcome.reset_after()
        );
        let most = longest + MARGIN + ROUNDING;
        assert!(left < most, "{case}: lives {left:?}, of use for {longest:?}");
    }
}

#[tokio::test]
async fn every_key_expires_soon_after_it_stops_counting() {
    // Under a test's clock every key lives an hour at least.
    const WINDOW: Duration = Duration::from_secs(400 * 3600);
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let limiter = server.limiter_at(&clock);
    let companion = Policy::builder("companion").max(1_000_000_000_000).window(WINDOW).build();
    for policy in every_layout(WINDOW) {
        let length = WINDOW / u32::try_from(policy.sub_windows()).unwrap();
        // A single limit may be decided at once; a group is decided step by step.
        for in_group in [false, true] {
            let case = format!("{policy:?}, in a group: {in_group}");
            let checks = [Check::new(&policy, "a").with_cost(200_000), Check::new(&companion, "other")];
            let group = if in_group { &checks[..] } else { &checks[..1] };
            for step in 0..4 {
                let since = Instant::now();
                let outcome = limiter.check_all(group).await.unwrap();
                assert!(outcome.is_allowed(), "{case}");
                let first = &outcome.outcomes()[0];
                let _: () =
                    server.raw().await.del(other_keys(&server, "rl1:companion:").await).await.unwrap();
                let longest = is_of_use_for(&policy, first);
                expect_lives(&server, longest, first, since, &format!("{case}, step {step}")).await;
                if step == 2 {
                    // A refund may write the key anew.
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

/// The keys that begin with `prefix`, and one that does not exist.
async fn other_keys(server: &Server, prefix: &str) -> Vec<String> {
    let mut keys: Vec<String> = server.raw().await.keys(format!("{prefix}*")).await.unwrap();
    keys.push("none".to_owned());
    keys
}

#[tokio::test]
async fn every_key_expires_by_the_clock_of_the_server() {
    let Some(server) = server() else { return };
    let limiter = server.limiter();
    for policy in every_layout(Duration::from_secs(60)) {
        // A log of single units is decided by its step, and a wide one by its tree.
        for cost in [1, 1, 200_000, 1] {
            let since = Instant::now();
            let outcome = limiter.check_n(&policy, "a", cost).await.unwrap();
            // The server may stand still between the script's look at the clock and its write.
            let longest = is_of_use_for(&policy, &outcome) + since.elapsed();
            expect_lives(&server, longest, &outcome, since, &format!("{policy:?}, cost {cost}")).await;
        }
        let _: () = redis::cmd("FLUSHALL").query_async(&mut server.raw().await).await.unwrap();
    }
}

#[tokio::test]
async fn a_window_of_a_calendar_has_a_key_that_lives_as_long_as_the_longest_of_its_label() {
    const DAY: Duration = Duration::from_secs(86_400);
    let Some(server) = server() else { return };
    let clock = FakeClock::at(Timestamp::from_micros(1_768_867_200_000_000)); // 2026-01-20T00:00:00Z
    let limiter = server.uncached_limiter_at(&clock);
    let policy = |calendar| Policy::builder("k").calendar(calendar).max(3).on_error(OnError::Deny).build();
    let longest = DAY * 31 + Duration::from_secs(3 * 3_600);
    let mut raw = server.raw().await;
    for (calendar, longest) in [(Calendar::month(15), longest), (Calendar::month(15).clamped(), 2 * longest)]
    {
        let (later, policy) = (policy(Calendar::month(31).clamped()), policy(calendar));
        let since = Instant::now();
        let outcome = limiter.check_n(&policy, "a", 3).await.unwrap();
        assert_eq!(outcome.reset_after(), DAY * 26, "until 15 February");
        expect_lives(&server, longest.checked_sub(DAY * 5).unwrap(), &outcome, since, "from 15 January")
            .await;
        let keys: Vec<String> = raw.keys("rl1:k:*").await.unwrap();
        let [key] = &keys[..] else { panic!("{keys:?}") };
        assert!(key.starts_with("rl1:k:fM.673:{"), "{key}");
        let state: Vec<u8> = raw.get(key).await.unwrap();
        // The first of February: the window that begins on the last day of January has the same label.
        clock.advance(DAY * 12);
        let group = [Check::new(&later, "a")];
        assert!(!limiter.check_all(&group).await.unwrap().is_allowed());
        for corrupt in [&state[..12], &[b"l", &state[1..]].concat(), &[&state[..], b"x"].concat()] {
            let () = raw.set(key, corrupt).await.unwrap();
            let error = limiter.check(&later, "a").await.unwrap_err();
            assert!(matches!(error, StoreError::CorruptState { .. }), "{corrupt:?}: {error}");
        }
        let _: () = redis::cmd("FLUSHALL").query_async(&mut raw).await.unwrap();
        clock.set(Timestamp::from_micros(1_768_867_200_000_000));
    }
}
