//! How long a key lives in Redis: as long as it matters, by the injected clock and by the server's.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use ratelimit_core::clock::Clock as _;
use ratelimit_core::{Algorithm, Check, Policy};
use tests::strategies::{cases, policy, step_forward};

/// The time that a key has to live, in milliseconds.
async fn ttl(connection: &mut redis::aio::MultiplexedConnection) -> Option<u64> {
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(connection).await.unwrap();
    let key = keys.first()?;
    assert_eq!(keys.len(), 1);
    let ttl: i64 = redis::cmd("PTTL").arg(key).query_async(connection).await.unwrap();
    Some(u64::try_from(ttl).expect("every key expires"))
}

/// The longest that a key may live, in microseconds: as long as a caller's state can say something, and the
/// second that every expiry has as a margin.
fn longest_life(policy: &Policy) -> u128 {
    const MARGIN: u128 = 1_000_000;
    let window = policy.window().as_micros();
    let says = match policy.algorithm() {
        Algorithm::SlidingWindowCounter => window + window / u128::from(policy.sub_windows()),
        Algorithm::SlidingWindowLog => window + 1,
        Algorithm::TokenBucket => (u128::from(policy.capacity()) * window).div_ceil(u128::from(policy.max())),
        Algorithm::FixedWindow => window,
        other => panic!("no longest life of a key is known for {other}"),
    };
    says + MARGIN
}

/// A machine that stands still between two commands for longer than this fails a test for nothing.
const SLACK: u64 = 20_000;

#[test]
fn a_key_in_redis_lives_exactly_as_long_as_it_matters() {
    let Some(store) = tests::timed::redis() else { return };
    let connection = store.run(store.server().unwrap().raw());
    let start = store.clock.now();
    let events = prop::collection::vec((step_forward(), 0u64..=100), 1..16);
    let config =
        Config { cases: cases("ORACLE_CASES", 2_000), failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let run = runner.run(&(policy(), events), |(policy, events)| {
        let () = store.run(redis::cmd("FLUSHALL").query_async(&mut connection.clone())).unwrap();
        // All cases together would pass the last instant that a script can compute with.
        store.clock.set(start);
        for (step, share) in events {
            store.advance(policy.window() * u32::try_from(step).unwrap() / 100);
            let check = Check::new(&policy, "a").with_cost(policy.capacity() * share / 100);
            let outcome = store.check_all(&[check]);
            let Some(ttl) = store.run(ttl(&mut connection.clone())) else { continue };
            if !outcome.is_allowed() {
                continue;
            }
            let needed = u64::try_from(outcome.outcomes()[0].reset_after().as_millis()).unwrap();
            prop_assert!(ttl + SLACK >= needed, "{} ms are too short for {} ms", ttl, needed);
            // An hour at least, as the injected time may pass more slowly than the server's.
            let longest = u64::try_from(longest_life(&policy).div_ceil(1000)).unwrap();
            prop_assert!(ttl <= longest.max(3_600_000), "{} ms are longer than {} ms", ttl, longest);
        }
        Ok(())
    });
    run.unwrap();
}

#[test]
fn the_servers_own_clock_decides_and_keys_expire_by_it() {
    let Some(store) = tests::timed::redis() else { return };
    let server = store.server().unwrap();
    let limiter = server.limiter();
    let mut connection = store.run(server.raw());
    let window = Duration::from_secs(600);
    for &algorithm in Algorithm::ALL {
        let policy = Policy::builder("k").max(5).window(window).algorithm(algorithm).build();
        store.run(async {
            let () = redis::cmd("FLUSHALL").query_async(&mut connection).await.unwrap();
            let time = async |connection: &mut redis::aio::MultiplexedConnection| -> u64 {
                let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(connection).await.unwrap();
                seconds * 1_000_000 + micros
            };
            let before = time(&mut connection).await;
            let group = [Check::new(&policy, "a").with_cost(3)];
            let outcome = limiter.check_all(&group).await.unwrap();
            let ttl = ttl(&mut connection).await.unwrap();
            let after = time(&mut connection).await;
            assert!((before..=after).contains(&outcome.at().as_micros()), "{algorithm}");
            let reset_after = u64::try_from(outcome.outcomes()[0].reset_after().as_millis()).unwrap();
            assert!(
                ttl + SLACK >= reset_after + 1000,
                "{algorithm}: {ttl} ms are too short for {reset_after} ms"
            );
            let longest = longest_life(&policy).div_ceil(1000);
            assert!(u128::from(ttl) <= longest, "{algorithm}: {ttl} ms are longer than {longest} ms");
        });
    }
}
