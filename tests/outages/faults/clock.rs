//! Wall clocks that are set, of the server and of the application.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use ratelimit_core::__private_0_1::PrivateOutcome as _;
use ratelimit_core::policy::Calendar;
use ratelimit_core::{Algorithm, Check, OnError, Policy, RateLimiter, RedisStore, Timestamp};
use tests::clock::clocked_server;
use tests::lane::Lane;
use tests::outage::SLACK;
use tests::proxy::{Mode, Proxy};
use tests::redis::server;

use super::{SECOND, patient};

/// Sends checks one after another until `until`; the instants of those that were allowed.
async fn admissions(limiter: &RateLimiter, policy: &Policy, caller: &str, until: Instant) -> Vec<Instant> {
    let mut admitted = Vec::new();
    while Instant::now() < until {
        let outcome = limiter.check(policy, caller).await.unwrap();
        if outcome.is_allowed() {
            admitted.push(Instant::now());
        } else {
            // An entry of a log that is exactly one window old still counts.
            let longest = policy.window() + Duration::from_micros(1);
            assert!(outcome.retry_after().unwrap() <= longest, "{:?}", outcome.retry_after());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    admitted
}

#[tokio::test]
async fn a_server_clock_step_blocks_callers_for_one_window_at_most() {
    const WINDOW: Duration = Duration::from_secs(1);
    const HOUR_US: i64 = 3_600_000_000;
    let Some(mut clocked) = clocked_server() else { return };
    let limiter = patient(&clocked.server.url());
    let time = |server: &tests::redis::Server| {
        let mut console = server.console();
        console.query("TIME");
        console.read();
        console.read().parse::<i64>().unwrap()
    };
    let here = time(&clocked.server);
    clocked.ahead(HOUR_US);
    assert!(time(&clocked.server) >= here + 3600, "the shim does nothing");
    clocked.ahead(0);
    let builder = Policy::builder("stepped").max(20).window(WINDOW).on_error(OnError::Deny);
    let policies: Vec<Policy> =
        Algorithm::ALL.iter().map(|&algorithm| builder.algorithm(algorithm).build()).collect();
    for (name, steps) in [
        ("an hour back", &[-HOUR_US][..]),
        ("two hours on", &[2 * HOUR_US]),
        ("50 ms to and fro", &[50_000, -50_000, 50_000, -50_000, 50_000, -50_000, 50_000, 0]),
    ] {
        let began = Instant::now();
        let until = began + 4 * WINDOW;
        let load = policies.iter().map(|policy| admissions(&limiter, policy, name, until));
        let set = async {
            tokio::time::sleep(WINDOW * 8 / 5).await;
            let stepped = Instant::now();
            for step in steps {
                clocked.ahead(*step);
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
            stepped
        };
        let (admitted, stepped) = futures_util::future::join(join_all(load), set).await;
        clocked.ahead(0);
        for (policy, admitted) in policies.iter().zip(admitted) {
            let algorithm = policy.algorithm();
            let next = admitted.iter().find(|at| **at > stepped).map(|at| *at - stepped);
            let after = admitted.iter().filter(|at| **at > stepped).count();
            println!(
                "{name}, {algorithm}: {} admitted in 4 windows, {after} after, the next {next:?} after",
                admitted.len()
            );
            // Checks follow each other every 2 ms; the slack is for a busy machine.
            let bound = WINDOW + SLACK;
            assert!(next.is_some_and(|next| next <= bound), "{name}, {algorithm}: {next:?}");
            // Four windows, the one that was begun, the burst of a bucket; and one more for the step.
            assert!(admitted.len() <= 20 * (4 + 1 + 1), "{name}, {algorithm}: {}", admitted.len());
        }
    }
}

#[test]
fn a_clock_step_of_the_application_has_no_effect() {
    const URL: &str = "RATELIMIT_TESTS_CLOCK";
    const YEAR: Duration = Duration::from_secs(365 * 86_400);
    let mut held = None;
    let variables = || {
        // Started from here, so that the server keeps the system's clock.
        let (server, shim) = (server()?, tests::clock::shim()?);
        let mut variables = shim.variables.clone();
        variables.push((URL.to_owned(), server.url().into()));
        held = Some((server, shim));
        Some(variables)
    };
    tests::own_process::in_own_process_with(variables, || {
        let wall = || std::time::SystemTime::now();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let limiters = [RateLimiter::in_memory(), patient(&std::env::var(URL).unwrap())];
            for &algorithm in Algorithm::ALL {
                let policy = Policy::builder("app-clock").algorithm(algorithm).max(5).window(YEAR).build();
                for limiter in &limiters {
                    tests::clock::set_own(0);
                    for _ in 0..5 {
                        assert!(limiter.check(&policy, "a").await.unwrap().is_allowed());
                    }
                    let wait = limiter.check(&policy, "a").await.unwrap().retry_after().unwrap();
                    for hours in [-1, 2, 24 * 400] {
                        let before = wall();
                        tests::clock::set_own(hours * 3_600_000_000);
                        let apart = wall().duration_since(before).unwrap_or_else(|error| error.duration());
                        assert!(apart > Duration::from_secs(1800), "the shim does nothing");
                        let outcome = limiter.check(&policy, "a").await.unwrap();
                        assert!(!outcome.is_allowed() && !outcome.is_degraded(), "{algorithm}: {outcome:?}");
                        let left = outcome.retry_after().unwrap();
                        let passed = wait.checked_sub(left).expect("the wait has grown");
                        assert!(passed < 60 * SECOND, "{algorithm}: {wait:?}, {left:?}");
                    }
                }
            }
        });
    });
    drop(held);
}

#[tokio::test]
async fn a_server_clock_that_is_set_by_days_fails_no_request_and_keeps_the_connection() {
    const DAY_US: u64 = 86_400_000_000;
    let Some(mut clocked) = clocked_server() else { return };
    let limiter = patient(&clocked.server.url());
    let policy = |key: &'static str| Policy::builder(key).on_error(OnError::Deny).max(3);
    let (day, plain) = (policy("day").calendar(Calendar::day()).build(), policy("plain").build());
    let slot = Policy::concurrency("slot", 1);
    assert!(limiter.check(&day, "first").await.unwrap().is_allowed());
    for days in [3, -4, 40] {
        clocked.ahead(days * DAY_US.cast_signed());
        // Several calls, with requests of both limits: the first ones are of the window before.
        let callers: Vec<String> = (0..40).map(|caller| format!("{days} {caller}")).collect();
        let requests = callers.iter().flat_map(|caller| [(&day, caller), (&plain, caller)]);
        for outcome in join_all(requests.map(|(policy, caller)| limiter.check(policy, caller))).await {
            assert_eq!(outcome.unwrap().remaining(), 2, "{days} days: charged once");
        }
        for caller in &callers {
            let (units, _) = limiter.check_up_to(&day, caller, 3).await.unwrap();
            assert!(units >= 2, "{days} days: {units} of the window of the server's clock");
            let denied = limiter.check(&day, caller).await.unwrap();
            let edge =
                denied.at().as_micros() + u64::try_from(denied.retry_after().unwrap().as_micros()).unwrap();
            assert_eq!(edge % DAY_US, 0, "{days} days: by the windows of the server's clock");
        }
        // A call that takes a slot as well.
        clocked.ahead(-days * DAY_US.cast_signed());
        let caller = format!("{days} slot");
        let group = [Check::new(&day, &caller), Check::new(&slot, &caller)];
        let held = limiter.check_all(&group).await.unwrap();
        assert!(held.is_allowed() && held.outcomes()[0].remaining() == 2, "{held:?}");
        assert!(!limiter.check_all(&group).await.unwrap().is_allowed(), "{days} days: the slot is held");
        drop(held);
        let until = Instant::now() + 10 * SECOND;
        while !limiter.check_all(&group).await.unwrap().is_allowed() {
            assert!(Instant::now() < until, "{days} days: the slot is free");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        // The first request is of the window before: its reply tells the server's time.
        assert_eq!(limiter.peek(&day, &caller).await.unwrap().remaining(), 2);
    }
    let connection = limiter.store_status().connection.unwrap();
    assert_eq!(connection.connections, 1, "the connection is kept");
}

#[tokio::test]
async fn the_first_requests_are_counted_in_the_window_of_the_servers_clock() {
    const DAY_US: i64 = 86_400_000_000;
    let Some(mut clocked) = clocked_server() else { return };
    let day = Policy::builder("day").calendar(Calendar::day()).max(3).on_error(OnError::Deny).build();
    for days in [3, 10] {
        clocked.ahead(days * DAY_US);
        // Before the store is connected.
        let limiter = RateLimiter::new(
            RedisStore::builder(&clocked.server.url())
                .deadline(10 * SECOND)
                .denial_cache_ttl(Duration::ZERO)
                .build()
                .unwrap(),
        );
        let caller = days.to_string();
        let first = join_all((0..2).map(|_| limiter.check(&day, &caller))).await;
        assert!(first.iter().all(|outcome| outcome.as_ref().unwrap().is_allowed()));
        assert_eq!(limiter.check(&day, &caller).await.unwrap().remaining(), 0, "{days} days");
    }
}

#[tokio::test]
async fn a_reply_that_is_read_after_midnight_chooses_no_window_of_the_day_before() {
    const MIDNIGHT: u64 = 1_798_675_200_000_000; // 2026-12-31T00:00:00Z
    let Some(mut clocked) = clocked_server() else { return };
    let proxy = Proxy::before(clocked.server.port());
    let store = RedisStore::builder(&proxy.url()).deadline(20 * SECOND).ping_interval(3600 * SECOND);
    let limiter = RateLimiter::new(store.denial_cache_ttl(Duration::ZERO).build().unwrap());
    Lane::Worker.until_connected(&limiter).await;
    let builder = Policy::builder("midnight").max(3).on_error(OnError::Deny);
    let (day, plain) = (builder.calendar(Calendar::day()).build(), builder.max(1_000).build());
    let check = |policy, caller| Lane::Worker.check(&limiter, policy, caller);
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let midnight = Instant::now() + SECOND;
    clocked.ahead(i64::try_from(MIDNIGHT - 1_000_000).unwrap() - i64::try_from(wall.as_micros()).unwrap());
    assert!(check(&plain, "first").await.unwrap().is_allowed());
    for left in [2, 1, 0] {
        assert_eq!(check(&day, "a").await.unwrap().remaining(), left);
    }
    proxy.set(Mode::Hold);
    let mut late = pin!(check(&plain, "late"));
    while proxy.held() == 0 {
        assert!(tokio::time::timeout(SECOND / 1_000, &mut late).await.is_err(), "the reply is held");
    }
    proxy.set(Mode::Pass);
    // The thread computes, and reads nothing meanwhile.
    std::thread::sleep(midnight + SECOND / 10 - Instant::now());
    assert!(late.await.unwrap().at() < Timestamp::from_micros(MIDNIGHT), "it was decided before");
    let first = check(&day, "a").await.unwrap();
    assert!(first.is_allowed() && first.remaining() == 2, "of the new day: {first:?}");
}

/// Runs `body` in a process whose clocks it may move.
fn in_own_time<F: FnOnce()>(body: F) {
    let mut held = None;
    let variables = || {
        let shim = tests::clock::shim()?;
        Some(held.insert(shim).variables.clone())
    };
    tests::own_process::in_own_process_with(variables, body);
}

#[test]
fn in_memory_windows_pass_while_the_machine_is_suspended() {
    in_own_time(|| {
        const DAY: Duration = Duration::from_secs(86_400);
        let limiter = RateLimiter::in_memory();
        for &algorithm in Algorithm::ALL {
            let policy = Policy::builder("suspended").algorithm(algorithm).max(1).window(DAY).build();
            let passes = || limiter.try_check(&policy, "a").unwrap().unwrap().is_allowed();
            tests::clock::suspend_own(0);
            assert!(passes() && !passes(), "{algorithm}");
            tests::clock::suspend_own(3 * 86_400_000_000);
            assert!(passes() && !passes(), "{algorithm}");
        }
    });
}

#[test]
fn in_memory_the_instant_that_clients_are_told_follows_a_wall_clock_that_is_set() {
    in_own_time(|| {
        let limiter = RateLimiter::in_memory();
        let policy =
            Policy::builder("told").max(1).window(60 * SECOND).algorithm(Algorithm::SlidingWindowLog).build();
        let check = || limiter.try_check(&policy, "a").unwrap().unwrap();
        assert!(check().is_allowed());
        for hours in [-1, 2, 48, 0] {
            tests::clock::set_own(hours * 3_600_000_000);
            let start = Instant::now();
            loop {
                let denial = check();
                let wait = denial.retry_after().expect("the decision does not follow");
                let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap() + wait;
                let told = Duration::from_micros(denial.available_at().as_micros());
                if told.abs_diff(wall) < SECOND {
                    break;
                }
                assert!(start.elapsed() < 20 * SECOND, "{hours} hours: {told:?}, and it is {wall:?}");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    });
}
