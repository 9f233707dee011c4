//! Leases: the process decides about a hot caller, and the count on the server is exact.

use std::time::Duration;

use ratelimit_core::clock::FakeClock;
use ratelimit_core::policy::Calendar;
use ratelimit_core::{
    Check, Mode as LimitMode, OnError, Policy, PolicyBuilder, RateLimiter, RedisStore, RedisStoreBuilder,
    Timestamp,
};
use tests::algorithms::{leasable, leasable_shapes};
use tests::clock_at_start;
use tests::log::Log;
use tests::outage::until_settled;
use tests::proxy::{Mode, Proxy};
use tests::redis::{Server, server};
use tracing::Level;

const LEASE: Duration = Duration::from_millis(100);

fn plain(key: &'static str, max: u64) -> PolicyBuilder {
    Policy::builder(key).max(max).window(Duration::from_secs(60)).on_error(OnError::Deny)
}

fn builder(key: &'static str, max: u64) -> PolicyBuilder {
    plain(key, max).lease(LEASE)
}

/// Every algorithm with leases.
fn policies(key: &'static str, max: u64) -> Vec<Policy> {
    leasable_shapes(builder(key, max), 60)
}

fn store(server: &Server, clock: &FakeClock) -> RedisStoreBuilder {
    server.builder_at(clock)
}

fn limiter(server: &Server, clock: &FakeClock) -> RateLimiter {
    RateLimiter::new(store(server, clock).build().unwrap())
}

/// Makes at most `most` requests of `cost` units, until one is denied. Returns how many passed.
async fn pass(limiter: &RateLimiter, policy: &Policy, caller: &str, cost: u64, most: u64) -> u64 {
    for passed in 0..most {
        if !limiter.check_n(policy, caller, cost).await.unwrap().is_allowed() {
            return passed;
        }
    }
    most
}

/// Makes requests until the process has at least ten unused units. Returns how many passed.
async fn until_leased(limiter: &RateLimiter, policy: &Policy, caller: &str) -> u64 {
    let mut passed = pass(limiter, policy, caller, 1, 50).await;
    while limiter.store_status().connection.unwrap().leases.held < 10 {
        assert!(passed < 400, "{}: no lease", policy.algorithm());
        passed += pass(limiter, policy, caller, 1, 1).await;
    }
    passed
}

/// Waits until the server's count leaves `units`, as seen by a limiter without leases.
async fn leaves(limiter: &RateLimiter, policy: &Policy, units: u64) -> bool {
    for _ in 0..2_000 {
        if limiter.peek(policy, "a").await.unwrap().remaining() == units {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    false
}

#[tokio::test]
async fn a_hot_caller_takes_few_calls_and_what_it_does_not_use_is_given_back() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    for policy in policies("few", 10_000) {
        let limiter = limiter(&server, &clock);
        assert_eq!(limiter.peek(&policy, "a").await.unwrap().remaining(), 10_000);
        let before = server.script_calls().await;
        assert_eq!(pass(&limiter, &policy, "a", 1, 2_000).await, 2_000);
        let calls = server.script_calls().await - before;
        assert!(calls <= 40, "{}: {calls} calls", policy.algorithm());
        // No request comes for an interval.
        clock.advance(LEASE);
        assert!(leaves(&limiter, &policy, 8_000).await, "{}", policy.algorithm());
    }
}

#[tokio::test]
async fn a_reset_takes_effect_at_once_despite_leases() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    for policy in &policies("reset", 1_000) {
        let limiter = limiter(&server, &clock);
        assert_eq!(pass(&limiter, policy, "a", 1, 300).await, 300);
        assert!(limiter.try_check(policy, "a").unwrap().is_some());
        limiter.reset(policy, "a").await.unwrap();
        assert_eq!(limiter.try_check(policy, "a").unwrap(), None);
        assert_eq!(pass(&limiter, policy, "a", 1, 2_000).await, 1_000, "{}", policy.algorithm());
    }
}

#[tokio::test]
async fn a_settlement_uses_unused_units_first_and_a_window_is_settled_exactly() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    for (i, policy) in policies("settled", 1_000).iter().enumerate() {
        let limiter = limiter(&server, &clock);
        // This limiter has no leases, so it shows what the server has charged.
        let plain = server.uncached_limiter_at(&clock);
        let mut used = pass(&limiter, policy, "a", 1, 200).await;
        let group = [Check::new(policy, "a").with_cost(10)];
        let charge = async || limiter.check_all(&group).await.unwrap().reservation(&group).unwrap();
        let unused = async || {
            let free = limiter.peek(policy, "a").await.unwrap().remaining();
            free - plain.peek(policy, "a").await.unwrap().remaining()
        };
        let charges = [charge().await, charge().await, charge().await];
        let [first, second, third] = charges;
        while unused().await < 20 {
            used += pass(&limiter, policy, "a", 1, 1).await;
            assert!(used < 400, "{}: no lease", policy.algorithm());
        }
        // A surplus is put into the lease, and a few more units are taken from it.
        let before = unused().await;
        limiter.settle(first, 4).await.unwrap();
        assert_eq!(unused().await, before + 6, "{}", policy.algorithm());
        limiter.settle(second, 13).await.unwrap();
        assert_eq!(unused().await, before + 3, "{}", policy.algorithm());
        used += 4 + 13;
        // More than the unused units: afterwards as many pass as without a lease, and no unit of it on top.
        let actual = [500, 1_000 - used, 2_000][i];
        limiter.settle(third, actual).await.unwrap();
        assert_eq!(unused().await, 0, "{}", policy.algorithm());
        let left = 1_000_u64.saturating_sub(used + actual);
        assert_eq!(pass(&limiter, policy, "a", 1, 2_000).await, left, "{}", policy.algorithm());
        clock.advance(Duration::from_secs(200));
    }
}

#[tokio::test]
async fn unused_units_are_given_back_before_the_server_decides_a_request_that_needs_them() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let other = server.uncached_limiter_at(&clock);
    for (policy, plain) in with_and_without("way", None) {
        for caller in ["first", "second"] {
            let limiter = limiter(&server, &clock);
            until_settled(&limiter).await;
            until_leased(&limiter, &policy, caller).await;
            // As after a restart: the server knows no script but that of checks.
            server.must("SCRIPT FLUSH");
            // The reply comes after the answers to leases that were fetched in the background.
            assert!(limiter.check(&plain, "another").await.unwrap().is_allowed());
            let unused = limiter.store_status().connection.unwrap().leases.held;
            let left = other.peek(&plain, caller).await.unwrap().remaining();
            let is_allowed = limiter.check_n(&policy, caller, left + unused - 2).await.unwrap().is_allowed();
            assert!(is_allowed, "{}: {left} left, {unused} unused", policy.algorithm());
        }
    }
}

#[tokio::test]
async fn units_leased_under_another_max_are_given_back_before_the_server_decides() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let other = server.uncached_limiter_at(&clock);
    for (policy, plain) in with_and_without("another-max", None) {
        for caller in ["first", "second"] {
            let limiter = limiter(&server, &clock);
            until_settled(&limiter).await;
            until_leased(&limiter, &policy, caller).await;
            // The reply comes after the answers to leases that were fetched in the background.
            assert!(limiter.check(&plain, "another").await.unwrap().is_allowed());
            let unused = limiter.store_status().connection.unwrap().leases.held;
            let used = 1_000 - other.peek(&plain, caller).await.unwrap().remaining() - unused;
            let smaller = builder("another-max", used + 5).algorithm(policy.algorithm()).build();
            let is_allowed = limiter.check_n(&smaller, caller, 5).await.unwrap().is_allowed();
            assert!(is_allowed, "{}: {used} used, {unused} unused", policy.algorithm());
        }
    }
}

#[tokio::test]
async fn what_remains_counts_the_units_that_this_process_holds() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    for (policy, plain) in with_and_without("remains", None) {
        let limiter = limiter(&server, &clock);
        let used = until_leased(&limiter, &policy, "a").await;
        // The reply comes after the answers to leases that were fetched in the background.
        assert!(limiter.check(&plain, "another").await.unwrap().is_allowed());
        // More than is held, so that the server decides. It has enough, so that no unit is given back.
        let before = server.script_calls().await;
        let outcome = limiter.check_n(&policy, "a", 300).await.unwrap();
        assert!(
            server.script_calls().await > before
                && limiter.store_status().connection.unwrap().leases.held >= 10
        );
        assert_eq!(outcome.remaining(), 1_000 - used - 300, "{}", policy.algorithm());
    }
}

#[tokio::test]
async fn a_window_of_a_calendar_has_leases_of_its_own() {
    const EDGE: u64 = 1_790_035_200_000_000; // 2026-09-22T00:00:00Z
    let Some(server) = server() else { return };
    let clock = FakeClock::at(Timestamp::from_micros(EDGE - 1_000_000));
    let (first, second) = (limiter(&server, &clock), limiter(&server, &clock));
    let day =
        Policy::builder("day").calendar(Calendar::day()).max(1_000).lease(LEASE).on_error(OnError::Deny);
    let day = day.build();
    let mut used = pass(&first, &day, "a", 1, 300).await + 1;
    while first.try_check(&day, "a").unwrap().is_none() {
        used += pass(&first, &day, "a", 1, 1).await;
        assert!(used < 500, "no lease");
    }
    clock.set(Timestamp::from_micros(EDGE));
    assert!(first.try_check(&day, "a").unwrap().is_none(), "the units are of the day before");
    assert_eq!(pass(&first, &day, "a", 1, 2_000).await, 1_000);
    clock.set(Timestamp::from_micros(EDGE - 1));
    let left = pass(&second, &day, "a", 1, 2_000).await;
    assert!(left <= 1_000 - used, "{left} and {used} of the day before");
}

#[tokio::test]
async fn a_limit_that_is_too_small_for_leases_is_decided_by_the_server() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let limiter = limiter(&server, &clock);
    let small = builder("small", 15).build();
    let short = builder("short", 1_000).window(Duration::from_millis(480)).sub_windows(10).build();
    let (log, _guard) = Log::of_thread();
    for policy in [small, short] {
        // Loads the script.
        assert!(limiter.check(&policy, "b").await.unwrap().is_allowed());
        let before = server.script_calls().await;
        assert_eq!(pass(&limiter, &policy, "a", 1, 15).await, 15);
        assert_eq!(server.script_calls().await - before, 15, "{}", policy.key());
        let is_about = |line: &&String| {
            line.contains("never gets a lease") && line.contains(&format!("{:?}", policy.key()))
        };
        assert_eq!(log.at(Level::WARN).iter().filter(is_about).count(), 1, "{}: logged once", policy.key());
    }
}

#[tokio::test]
async fn a_dropped_store_gives_back_its_unused_units() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let plain = limiter(&server, &clock);
    for policy in &policies("drop", 1_000) {
        let limiter = limiter(&server, &clock);
        let passed = until_leased(&limiter, policy, "a").await;
        drop(limiter);
        assert!(leaves(&plain, policy, 1_000 - passed).await, "{}", policy.algorithm());
    }
}

#[tokio::test]
async fn a_shadow_limit_is_leased_and_denies_nothing() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    for algorithm in leasable() {
        let limiter = limiter(&server, &clock);
        let shadow = builder("shadow", 100).algorithm(algorithm).mode(LimitMode::Shadow).build();
        let enforced = builder("beside", 10_000).algorithm(algorithm).build();
        let (mut fits, mut would_deny, mut leased) = (0, 0, 0);
        for _ in 0..300 {
            let group = [Check::new(&shadow, "a").with_cost(2), Check::new(&enforced, "a")];
            let now = limiter.try_check_all(&group).unwrap();
            leased += u64::from(now.is_some());
            let outcome = match now {
                Some(outcome) => outcome,
                None => limiter.check_all(&group).await.unwrap(),
            };
            assert!(outcome.is_allowed() && outcome.outcomes()[0].is_shadow());
            fits += u64::from(!outcome.outcomes()[0].would_deny());
            would_deny += u64::from(outcome.outcomes()[0].would_deny());
        }
        assert_eq!((fits, would_deny), (50, 250), "{algorithm}");
        assert!(leased > 10, "{algorithm}: {leased}");
        clock.advance(LEASE);
        let plain = server.uncached_limiter_at(&clock);
        assert!(leaves(&plain, &enforced, 10_000 - 300).await);
    }
}

/// Every algorithm with leases, as a limit with a lease and as one without, over one count.
fn with_and_without(key: &'static str, block: Option<Duration>) -> impl Iterator<Item = (Policy, Policy)> {
    leasable().map(move |algorithm| {
        let builder = plain(key, 1_000).algorithm(algorithm);
        let builder = if let Some(block) = block { builder.block(block) } else { builder };
        (builder.lease(LEASE).build(), builder.build())
    })
}

#[tokio::test]
async fn a_settlement_whose_future_was_dropped_ends_leases_when_its_answer_comes() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let proxy = Proxy::before(server.port());
    let store = RedisStore::builder(&proxy.url()).deadline(Duration::from_secs(10)).clock(clock.clone());
    let limiter = RateLimiter::new(store.ping_interval(Duration::from_secs(3600)).build().unwrap());
    let direct = server.limiter_at(&clock);
    until_settled(&limiter).await;
    for (policy, plain) in with_and_without("dropped", None) {
        let group = [Check::new(&plain, "a")];
        let reservation = limiter.check_all(&group).await.unwrap().reservation(&group).unwrap();
        until_leased(&limiter, &policy, "a").await;
        // The reply comes after the answers to leases that were fetched in the background.
        assert!(limiter.check(&plain, "another").await.unwrap().is_allowed());
        proxy.set(Mode::Hold);
        let in_debt = async {
            while direct.peek(&plain, "a").await.unwrap().is_allowed() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            biased;
            result = limiter.settle(reservation, 5_000) => panic!("settled: {result:?}"),
            () = in_debt => {}
        }
        proxy.set(Mode::Pass);
        // The reply comes after the answer to the settlement, over the same connection.
        assert!(limiter.check(&plain, "another").await.unwrap().is_allowed());
        assert_eq!(pass(&limiter, &policy, "a", 1, 1).await, 0, "{}: beside the debt", policy.algorithm());
    }
}

#[tokio::test]
async fn a_lease_that_is_denied_begins_no_block() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let drain = server.uncached_limiter_at(&clock);
    for (policy, plain) in with_and_without("denied", Some(Duration::from_secs(600))) {
        let limiter = limiter(&server, &clock);
        until_leased(&limiter, &policy, "a").await;
        // Another process takes the units that are left, and this process fetches its next lease.
        let left = drain.peek(&plain, "a").await.unwrap().remaining();
        assert!(drain.check_n(&plain, "a", left).await.unwrap().is_allowed());
        let before = server.script_calls().await;
        // Enough time passes for the next lease to be considered.
        clock.advance(LEASE / 16);
        while limiter.try_check(&policy, "a").unwrap().is_some() {}
        // The reply comes after the answer to the fetch, over the same connection.
        assert!(limiter.check(&plain, "another").await.unwrap().is_allowed());
        assert!(server.script_calls().await > before, "{}", policy.algorithm());
        let outcome = drain.peek(&plain, "a").await.unwrap();
        assert_eq!(outcome.remaining(), 0);
        assert!(outcome.retry_after() <= Some(Duration::from_secs(120)), "{}: blocked", policy.algorithm());
    }
}
