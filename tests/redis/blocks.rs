//! Blocks on a server: what is stored, for how long, what it costs, and what other programs may leave there.

use std::time::Duration;

use ratelimit_core::clock::Clock;
use ratelimit_core::{Algorithm, Check, Mode, OnError, Policy};
use redis::AsyncCommands;
use tests::clock_at_start;
use tests::redis::{Server, server};

use super::only_key;

const HOUR: Duration = Duration::from_secs(3600);

fn blocking(algorithm: Algorithm, max: u64) -> Policy {
    Policy::builder("k").algorithm(algorithm).max(max).block(HOUR).on_error(OnError::Deny).build()
}

#[tokio::test]
async fn a_block_lives_as_long_as_it_denies() {
    let Some(server) = server() else { return };
    // By the server's clock: a test's clock prolongs every TTL to an hour.
    let limiter = server.limiter();
    let mut raw = server.raw().await;
    for &algorithm in Algorithm::ALL {
        let policy = blocking(algorithm, 1);
        while limiter.check(&policy, "a").await.unwrap().is_allowed() {}
        let _ = limiter.check(&policy, "a").await.unwrap();
        let left: i64 = raw.pttl(only_key(&server).await).await.unwrap();
        // One second more, as for every state.
        assert!((3_591_000..=3_601_001).contains(&left), "{algorithm}: {left} ms");
        let _: () = redis::cmd("FLUSHALL").query_async(&mut raw).await.unwrap();
    }
}

async fn script_calls(server: &Server) -> u64 {
    server.info("commandstats", "cmdstat_evalsha:calls").await
}

#[tokio::test]
async fn a_blocked_caller_costs_one_call_in_each_ttl_of_the_denial_cache() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let limiter = server.limiter_at(&clock);
    for &algorithm in Algorithm::ALL {
        let policy = blocking(algorithm, 1);
        while limiter.check(&policy, "a").await.unwrap().is_allowed() {}
        let began = clock.now();
        clock.advance(Duration::from_micros(1));
        let before = script_calls(&server).await;
        for second in 0..10u64 {
            for _ in 0..50 {
                let outcome = limiter.check(&policy, "a").await.unwrap();
                let waited = clock.now().as_micros() - began.as_micros();
                let rest = HOUR.checked_sub(Duration::from_micros(waited)).unwrap();
                assert_eq!(outcome.retry_after(), Some(rest), "{algorithm}");
                assert_eq!(outcome.reset_after(), rest, "{algorithm}");
                clock.advance(Duration::from_millis(20));
            }
            let calls = script_calls(&server).await - before;
            assert!(calls <= second + 1, "{algorithm}: {calls} calls in {second} s");
        }
        // Another cost, and another policy of the same count, are decided by the server.
        assert!(limiter.try_check_all(&[Check::new(&policy, "a").with_cost(0)]).unwrap().is_none());
        let open = Policy::builder("k").algorithm(algorithm).max(1).on_error(OnError::Deny).build();
        assert!(limiter.try_check(&open, "a").unwrap().is_none(), "{algorithm}");
        let reset = limiter.reset(&policy, "a").await;
        assert!(reset.is_ok() && limiter.check(&policy, "a").await.unwrap().is_allowed(), "{algorithm}");
        let _: () = redis::cmd("FLUSHALL").query_async(&mut server.raw().await).await.unwrap();
    }
}

#[tokio::test]
async fn a_block_ends_the_cached_denials_of_its_caller() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let limiter = server.limiter_at(&clock);
    for &algorithm in Algorithm::ALL {
        let policy = blocking(algorithm, 1);
        let never = Check::new(&policy, "a").with_cost(u64::MAX);
        assert!(limiter.check(&policy, "a").await.unwrap().is_allowed());
        // A cost that never passes begins no block, and is cached.
        assert!(limiter.check_all(&[never]).await.unwrap().outcomes()[0].reset_after() < HOUR, "{algorithm}");
        assert!(limiter.try_check_all(&[never]).unwrap().is_some(), "{algorithm}");
        assert!(!limiter.check_up_to(&policy, "a", 5).await.unwrap().1.is_allowed(), "{algorithm}");
        let seen = limiter.check_all(&[never]).await.unwrap();
        assert_eq!(seen.outcomes()[0].reset_after(), HOUR, "{algorithm}");
        clock.advance(Duration::from_millis(1));
        // A shadow limit begins a block although it admits.
        let shadow = Policy::builder("shadow").algorithm(algorithm).max(1).block(HOUR).mode(Mode::Shadow);
        let shadow = shadow.build();
        let both = [Check::new(&policy, "a"), Check::new(&shadow, "a").with_cost(u64::MAX)];
        assert!(limiter.check(&shadow, "a").await.unwrap().is_allowed());
        let reset = async || limiter.check_all(&both).await.unwrap().outcomes()[1].reset_after();
        assert!(reset().await < HOUR && limiter.try_check_all(&both).unwrap().is_some(), "{algorithm}");
        assert!(limiter.check(&shadow, "a").await.unwrap().is_allowed());
        assert_eq!(reset().await, HOUR, "{algorithm}");
        let _: () = redis::cmd("FLUSHALL").query_async(&mut server.raw().await).await.unwrap();
        clock.advance(HOUR);
    }
}
