//! Many concurrent tasks and processes: exactly the limit passes, a group is charged as a whole or not at
//! all, and there is no deadlock.
//!
//! The usual run of the processes is a small one. The full one is
//!
//! ```text
//! CONTENTION=full cargo test --release -p tests --test core many_concurrent_processes
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "tests")]

use std::collections::HashMap;
use std::sync::mpsc;
use std::time::Duration;

use futures_util::future::join_all;
use ratelimit_core::clock::FakeClock;
use ratelimit_core::{Algorithm, Check, MemoryStore, Policy, RateLimiter};
use tests::algorithms::shapes;
use tests::contention::{self, CALLERS};
use tests::program::Program;
use tests::random::Random;
use tests::redis::Server;
use tests::timed::{MIDNIGHT, Timed, report};

const TASKS: u64 = 64;
const DAY: Duration = Duration::from_secs(86_400);

/// The longest time that a slow machine may take; longer means a deadlock.
const DEADLINE: Duration = Duration::from_secs(120);

/// Every algorithm, with as many units a day.
fn every_algorithm(key: &'static str, max: u64) -> Vec<Policy> {
    shapes(Policy::builder(key).max(max).window(DAY), 24)
}

/// Runs a task for each number on several threads at once, and fails when they do not end.
fn race<F, T>(task: impl Fn(u64) -> F) -> Vec<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(8).enable_all().build().unwrap();
    let tasks: Vec<_> = (0..TASKS).map(|i| runtime.spawn(task(i))).collect();
    let (done, ended) = mpsc::channel();
    // A thread of its own: tasks that wait for each other's locks would block any timer of the runtime.
    std::thread::spawn(move || {
        let results = runtime.block_on(join_all(tasks));
        done.send(results.into_iter().map(|result| result.expect("no task panics")).collect()).unwrap();
    });
    ended.recv_timeout(DEADLINE).expect("the tasks wait for each other, or one panicked")
}

/// Units by policy and caller.
type Units = HashMap<(usize, usize), u64>;

/// What a task took, and what it gave back at once.
#[derive(Default)]
struct Tally {
    kept: Units,
    given_back: Units,
}

/// Checks random groups over the same few counts, in any order and some twice, and refunds some of them.
async fn take_groups(limiter: RateLimiter, policies: Vec<Policy>, mut random: Random) -> Tally {
    let mut tally = Tally::default();
    for _ in 0..60 {
        let limits: Vec<(usize, usize, u64)> = (0..=random.index(5))
            .map(|_| (random.index(policies.len()), random.index(4), random.below(3)))
            .collect();
        let callers = ["a", "b", "c", "d"];
        let checks =
            limits.iter().map(|&(policy, c, cost)| Check::new(&policies[policy], callers[c]).with_cost(cost));
        let group: Vec<Check<'_>> = checks.collect();
        let outcome = limiter.check_all(&group).await.unwrap();
        if let Some(reservation) = outcome.reservation(&group) {
            let units = if random.below(4) == 0 {
                limiter.refund(reservation).await.unwrap();
                &mut tally.given_back
            } else {
                &mut tally.kept
            };
            for (policy, caller, cost) in limits {
                *units.entry((policy, caller)).or_default() += cost;
            }
        }
    }
    tally
}

/// Sums up what the tasks took, and compares it with what the store says is left.
fn take_groups_from_many_tasks(limiter: &RateLimiter, left: impl Fn(&Policy, &str) -> u64) {
    // So little that most counts run out.
    let policies = every_algorithm("groups", 150);
    let tallies = race(|task| {
        take_groups(limiter.clone(), policies.clone(), Random(0x9e37_79b9_7f4a_7c15 ^ (task + 1)))
    });
    let (mut all, mut used_up) = (Tally::default(), 0);
    for tally in tallies {
        for (sum, units) in [(&mut all.kept, tally.kept), (&mut all.given_back, tally.given_back)] {
            for (count, units) in units {
                *sum.entry(count).or_default() += units;
            }
        }
    }
    for (p, policy) in policies.iter().enumerate() {
        for (c, caller) in ["a", "b", "c", "d"].into_iter().enumerate() {
            let [kept, given_back] =
                [&all.kept, &all.given_back].map(|sum| sum.get(&(p, c)).copied().unwrap_or(0));
            let accounted = kept + left(policy, caller);
            let count =
                format!("{} {p} of {caller}: {kept} kept, {given_back} given back", policy.algorithm());
            // A charge that another one's units have paid gives nothing back to a token bucket.
            let lost = if policy.algorithm() == Algorithm::TokenBucket { given_back } else { 0 };
            assert!(accounted <= 150 && accounted + lost >= 150, "{count}, {accounted} of 150 accounted for");
            used_up += u32::from(accounted - kept <= 1);
        }
    }
    assert!(used_up >= 10, "only {used_up} counts were contended");
}

tests::on_both_stores! {
    fn groups_in_any_order_are_charged_as_a_whole_or_not_at_all(store: &Timed) {
        take_groups_from_many_tasks(&store.limiter, |policy, caller| store.peek(policy, caller).remaining());
    }
}

#[test]
fn groups_without_room_in_memory_share_a_limit_without_deadlock() {
    let store = MemoryStore::with_max_callers(1).with_clock(FakeClock::at(MIDNIGHT));
    let limiter = RateLimiter::new(store);
    let policies = every_algorithm("groups", 150);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { assert!(limiter.check(&policies[0], "first").await.unwrap().is_allowed()) });
    // There are no refunds here, since a shared count does not know which caller was charged.
    let tallies = race(|task| {
        let (limiter, policies, mut random) = (limiter.clone(), policies.clone(), Random(task + 1));
        async move {
            let mut taken = vec![0; policies.len()];
            for _ in 0..60 {
                let picks: Vec<(usize, String)> = (0..=random.index(4))
                    .map(|_| (random.index(policies.len()), random.below(1_000).to_string()))
                    .collect();
                let checks = picks.iter().map(|(policy, caller)| Check::new(&policies[*policy], caller));
                let group: Vec<Check<'_>> = checks.collect();
                if limiter.check_all(&group).await.unwrap().is_allowed() {
                    for (policy, _) in picks {
                        taken[policy] += 1;
                    }
                }
            }
            taken
        }
    });
    for i in 0..policies.len() {
        let taken: u64 = tallies.iter().map(|taken| taken[i]).sum();
        assert!(taken <= 150, "{taken} of policy {i}");
    }
    assert!(
        tallies.iter().flatten().sum::<u64>() >= 140 * policies.len() as u64,
        "the counts were contended"
    );
}

/// What a contending process prints in the end: for each count, the number of checks and of those that
/// passed.
fn result(mut contender: Program) -> Vec<[u64; 2]> {
    let counts = (0..contention::counts()).map(|_| {
        let line = contender.line();
        let (checks, passed) = line.split_once(' ').expect("two numbers a count");
        [checks, passed].map(|number| number.parse().unwrap())
    });
    let counts = counts.collect();
    contender.wait();
    counts
}

/// Processes, tasks in each, and decisions in all.
fn size_of_the_run() -> (u64, u64, u64) {
    if std::env::var("CONTENTION").is_ok_and(|size| size == "full") {
        (8, 64, 1_000_000)
    } else {
        (4, 16, 40_000)
    }
}

/// The server's time, in microseconds.
fn time(store: &Timed, server: &Server) -> u64 {
    store.run(async {
        let (seconds, micros): (u64, u64) =
            redis::cmd("TIME").query_async(&mut server.raw().await).await.unwrap();
        seconds * 1_000_000 + micros
    })
}

#[test]
fn many_concurrent_processes_pass_exactly_the_limit() {
    let Some(store) = tests::timed::redis() else { return };
    let server = store.server().unwrap();
    let (processes, tasks, decisions) = size_of_the_run();
    // Every count gets twice as many checks as it admits.
    let counts = contention::counts() as u64;
    let (share, max) = (decisions / processes, decisions / counts / 2);
    let window = u64::try_from(contention::WINDOW.as_micros()).unwrap();
    for run in 0.. {
        let arguments =
            [server.url(), run.to_string(), max.to_string(), tasks.to_string(), share.to_string()];
        let start = |_| Program::start(env!("CARGO_BIN_EXE_contender"), &arguments);
        let mut contenders: Vec<Program> = (0..processes).map(start).collect();
        let before = time(&store, server);
        for contender in &mut contenders {
            contender.tell("go");
        }
        let results: Vec<Vec<[u64; 2]>> = contenders.into_iter().map(result).collect();
        let after = time(&store, server);
        let sum = |count: usize, what: usize| results.iter().map(|counts| counts[count][what]).sum::<u64>();
        if before / window != after / window {
            // An edge between windows, where other numbers are right; the next will not come so soon.
            continue;
        }
        assert!(after - before < window / max, "a bucket has refilled a token meanwhile");
        let mut lines = vec![format!("{processes} processes of {tasks} tasks:")];
        for (p, policy) in contention::policies(max).iter().enumerate() {
            let of_policy = p * CALLERS..(p + 1) * CALLERS;
            for count in of_policy.clone() {
                assert!(sum(count, 0) > max, "count {count} was checked {} times", sum(count, 0));
                assert_eq!(sum(count, 1), max, "{}, count {count}", policy.algorithm());
            }
            let total = |what| of_policy.clone().map(|count| sum(count, what)).sum::<u64>();
            let due = max * CALLERS as u64;
            let name = format!("{}, sub-windows {}", policy.algorithm(), policy.sub_windows());
            lines.push(format!("  {name}: {} decisions, {} passed, {due} were due", total(0), total(1)));
        }
        let all: u64 = (0..contention::counts()).map(|count| sum(count, 0)).sum();
        assert_eq!(all, share * processes);
        let millis = (after - before) / 1000;
        lines.push(format!("  {all} decisions in {millis} ms, none too many, none too few"));
        report(&lines.join("\n"));
        return;
    }
}
