//! Leases under faults: processes that are killed and stopped, servers that are lost and come back, and
//! clocks of servers that are set.
//!
//! The soak is usually short. Its full run, with ten million decisions, is
//!
//! ```text
//! LEASES=full cargo test -p tests --test outages processes_with_leases
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real waits")]

use std::time::{Duration, Instant};

use ratelimit_core::{Algorithm, OnError, Policy, RateLimiter};
use tempfile::TempDir;
use tests::algorithms::leasable;
use tests::cluster::cluster;
use tests::lessees::{CALLERS, Verdict, lessee, policies, read_uses, replay};
use tests::program::Program;
use tests::random::Random;
use tests::redis::server;
use tests::timed::report;

const LESSEE: &str = env!("CARGO_BIN_EXE_lessee");

/// The number of processes, and of all decisions.
fn size_of_the_run() -> (u32, u64) {
    if std::env::var("LEASES").is_ok_and(|size| size == "full") { (8, 10_000_000) } else { (4, 150_000) }
}

/// Several processes over one server are killed and stopped. Every use, replayed at its own instant, passes.
#[test]
fn processes_with_leases_that_are_killed_and_stopped_admit_no_request_too_many() {
    const MAX: u64 = 4_000;
    let Some(server) = server() else { return };
    let (processes, wanted) = size_of_the_run();
    let folder = TempDir::new().unwrap();
    let started = std::cell::Cell::new(0);
    let start = || {
        started.set(started.get() + 1);
        lessee(LESSEE, &server.url(), folder.path(), &started.get().to_string(), processes, MAX)
    };
    let mut lessees: Vec<Program> = (0..processes).map(|_| start()).collect();
    let (mut random, began) = (Random(42), Instant::now());
    let (mut kills, mut stops) = (0, 0);
    while decisions(&folder) < wanted || kills < 3 || stops < 6 {
        assert!(began.elapsed() < Duration::from_secs(900), "too few decisions");
        std::thread::sleep(Duration::from_millis(20 + random.below(80)));
        let place = random.index(lessees.len());
        match random.below(8) {
            0 | 1 => {
                kills += 1;
                lessees.swap_remove(place).kill();
                lessees.push(start());
            }
            2..=4 => {
                stops += 1;
                lessees[place].signal("STOP");
                std::thread::sleep(Duration::from_millis(random.pick(&[5, 40, 150, 400, 1_200])));
                lessees[place].signal("CONT");
            }
            _ => {}
        }
    }
    for mut lessee in lessees {
        lessee.tell("stop");
        lessee.wait();
    }
    let policies = policies(MAX);
    let uses = read_uses(folder.path());
    let leased = uses.iter().filter(|one| one.verdict == Verdict::Leased).count();
    report(&format!(
        "{processes} processes, {kills} kills, {stops} stops: {} decisions, {} admitted, {leased} of them by leases, {:.1} s",
        decisions(&folder),
        uses.len(),
        began.elapsed().as_secs_f64()
    ));
    for (number, policy) in policies.iter().enumerate() {
        let of_policy = |count: u16| usize::from(count) / CALLERS == number;
        let leased = uses.iter().filter(|one| of_policy(one.count) && one.verdict == Verdict::Leased).count();
        assert!(leased > 1_000, "{}: only {leased} by leases", policy.key());
    }
    assert_eq!(replay(&policies, &uses), [], "uses too many");
}

/// The number of decisions so far.
fn decisions(folder: &TempDir) -> u64 {
    let files = std::fs::read_dir(folder.path()).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().len() / 16).sum()
}

fn leased(key: &'static str, algorithm: Algorithm) -> Policy {
    let builder = Policy::builder(key).algorithm(algorithm).max(10_000).window(Duration::from_secs(60));
    builder.on_error(OnError::Deny).lease(Duration::from_millis(100)).build()
}

/// Makes a caller hot, until the process has at least ten unused units.
async fn make_hot(limiter: &RateLimiter, policy: &Policy, caller: &str) {
    let unused = || limiter.store_status().connection.unwrap().leases.held;
    for number in 0.. {
        assert!(limiter.check(policy, caller).await.unwrap().is_allowed());
        if number >= 400 && unused() >= 10 {
            break;
        }
    }
}

/// Uses all units. Returns how many requests they admit.
fn use_all(limiter: &RateLimiter, policy: &Policy, caller: &str) -> u64 {
    let mut used = 0;
    while limiter.try_check(policy, caller).unwrap().is_some_and(|outcome| outcome.is_allowed()) {
        used += 1;
    }
    used
}

async fn until_ready(limiter: &RateLimiter) {
    let began = Instant::now();
    while limiter.peek(&leased("ready", Algorithm::FixedWindow), "a").await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(20), "the store does not come back");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_killed_server_is_bridged_by_unused_units_which_are_void_on_the_next_connection() {
    for algorithm in leasable() {
        let Some(mut server) = server() else { return };
        // One connection, because a worker that loses its own connection also voids leases. The clock stands
        // still, so that no lease ends while the server starts.
        let store = server.builder_at(&tests::clock_at_start()).connections(1);
        let limiter = RateLimiter::new(store.build().unwrap());
        let policy = leased("killed", algorithm);
        until_ready(&limiter).await;
        make_hot(&limiter, &policy, "a").await;
        server.kill();
        let bridged = use_all(&limiter, &policy, "a");
        assert!(limiter.check(&policy, "a").await.is_err(), "fails closed without units");
        // The caller gets leases of the next server, which is killed before they are used.
        server.restart();
        until_ready(&limiter).await;
        make_hot(&limiter, &policy, "a").await;
        let before = limiter.try_check(&policy, "a").unwrap().is_some();
        server.restart();
        until_ready(&limiter).await;
        let after = use_all(&limiter, &policy, "a");
        report(&format!(
            "{algorithm}: {bridged} admitted while Redis was gone, {after} by old units on the next server"
        ));
        assert!(bridged > 0 && before);
        assert_eq!(after, 0, "{algorithm}");
    }
}

#[tokio::test]
async fn a_clock_of_the_server_that_is_set_voids_leases_at_the_next_answer() {
    for (name, by) in
        [("an hour on", 3_600_000_000i64), ("an hour back", -3_600_000_000), ("50 ms on", 50_000)]
    {
        for algorithm in leasable() {
            let Some(mut clocked) = tests::clock::clocked_server() else { return };
            let limiter = tests::lessees::limiter(&clocked.server.url(), 1);
            let (policy, other) = (leased("set", algorithm), leased("other", Algorithm::FixedWindow));
            until_ready(&limiter).await;
            make_hot(&limiter, &other, "b").await;
            make_hot(&limiter, &policy, "a").await;
            clocked.ahead(by);
            assert!(limiter.try_check(&policy, "a").unwrap().is_some(), "the process has not seen it yet");
            // Any answer about a hot caller shows it. The cost is larger than any lease.
            assert!(limiter.check_n(&other, "b", 3_000).await.is_ok());
            let after = use_all(&limiter, &policy, "a");
            assert_eq!(after, 0, "{name}, {algorithm}");
        }
    }
}

/// The master is lost, with the writes that its replica does not have. Leases of the old master are void on
/// the new master.
#[tokio::test]
async fn leases_of_a_lost_master_are_void_on_the_promoted_one() {
    let Some(mut sentinels) = tests::sentinel::sentinels().await else { return };
    let limiter = tests::lessees::limiter(&sentinels.url(), 1);
    let policy = leased("promoted", Algorithm::FixedWindow);
    until_ready(&limiter).await;
    make_hot(&limiter, &policy, "a").await;
    sentinels.master.kill();
    let bridged = use_all(&limiter, &policy, "a");
    let began = Instant::now();
    while limiter.check(&policy, "b").await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(120), "no server was promoted");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let after = use_all(&limiter, &policy, "a");
    report(&format!(
        "failover: {bridged} by unused units until the loss was noticed, {after} after the promotion, {:.1} s later",
        began.elapsed().as_secs_f64()
    ));
    assert_eq!(after, 0);
}

/// No call of a cluster may have keys of several hash slots, so the units of each caller go back in a call of
/// their own.
#[tokio::test]
async fn units_of_several_callers_of_a_cluster_go_back_to_the_nodes_of_each() {
    const CALLERS: usize = 10;
    let Some(cluster) = cluster(false).await else { return };
    let clock = tests::clock_at_start();
    let [limiter, plain] = [(); 2].map(|()| RateLimiter::new(cluster.store_at(&clock)));
    let policy =
        Policy::builder("nodes").max(10_000).window(Duration::from_secs(3600)).on_error(OnError::Deny);
    let policy = policy.algorithm(Algorithm::FixedWindow).lease(Duration::from_millis(100)).build();
    until_ready(&limiter).await;
    let held = || limiter.store_status().connection.unwrap().leases.held;
    let mut used = [0; CALLERS];
    for (caller, used) in used.iter_mut().enumerate() {
        let before = held();
        while held() < before + 4 {
            assert!(limiter.check(&policy, caller.to_string()).await.unwrap().is_allowed());
            *used += 1;
        }
    }
    let (began, mut left) = (Instant::now(), [0; CALLERS]);
    while left != used.map(|used| 10_000 - used) {
        assert!(began.elapsed() < Duration::from_secs(20), "{used:?} used, {left:?} left");
        // An interval without requests, for units that come with a late answer, too.
        clock.advance(Duration::from_millis(100));
        for (caller, left) in left.iter_mut().enumerate() {
            *left = plain.peek(&policy, caller.to_string()).await.unwrap().remaining();
        }
    }
    assert_eq!(held(), 0);
}
