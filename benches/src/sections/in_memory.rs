//! A check in this process: against the least that one can do, and against governor.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use ratelimit_actix::{Algorithm, RateLimiter};

use super::{Bench, compare};
use crate::caller::{Caller, Callers};
use crate::children;
use crate::memory::{self, Decide, FLOOR_STILL, GOVERNOR, GOVERNOR_STILL, NAMES, OURS, OURS_STILL};
use crate::ours;
use crate::random::Random;
use crate::report::{Goal, Report, Row};
use crate::rounds::{Measured, Variant, find, take_turns};
use crate::spread::{Spread, short};
use crate::table::Table;

/// Measures and reports.
pub fn run(bench: &Bench<'_>, report: &mut Report) {
    report.section("A check in memory");
    report.text(
        "Nanoseconds of a check. *Clock still*: time is given. The floor is one hash, one slot and one atomic exchange, without telling colliding callers apart.",
    );
    let hot = race(bench, 1, 1);
    report.text("One caller, one thread:");
    report.table(&compare(&hot, FLOOR_STILL, "ns"));
    let nanos = |name| find(&hot, name).spread(|ns| *ns).median;
    report.conclude(&format!(
        "One thread makes {} checks a second in memory; governor makes {}.",
        short(1e9 / nanos(OURS)),
        short(1e9 / nanos(GOVERNOR)),
    ));
    report.text("One caller, two threads (nanoseconds that a thread waits for a check):");
    report.table(&compare(&race(bench, 2, 1), FLOOR_STILL, "ns"));
    report.text("1000 callers in any order, two threads:");
    report.table(&compare(&race(bench, 2, 1000), FLOOR_STILL, "ns"));

    report.text("One caller of a token bucket, and a wait whose turn is now:");
    let futures = waits(bench);
    report.table(&compare(&futures, "check", "ns"));
    let ratio = Spread::ratio(&find(&futures, "wait").rounds, &find(&futures, "check").rounds);
    report.goal(Goal::at_most(Row::InMemory, "a wait whose turn is now", 1.1, " × a check", ratio));

    report.text("Instructions of a check of one caller, counted by valgrind:");
    let counts: Vec<Option<f64>> = NAMES
        .iter()
        .map(|name| children::instructions(bench.programs.instructions, name, bench.settings.instructions))
        .collect();
    let of = |name: &str| counts[NAMES.iter().position(|other| *other == name)?];
    let (Some(base), Some(ours)) = (of(GOVERNOR_STILL), of(OURS_STILL)) else {
        report.text("Not counted: valgrind is not installed.");
        return;
    };
    let mut table = Table::new(["what".to_owned(), "instructions".to_owned(), format!("× {GOVERNOR_STILL}")]);
    for (name, count) in NAMES.iter().zip(&counts) {
        let count = count.unwrap_or(f64::NAN);
        table.row([(*name).to_owned(), short(count), short(count / base)]);
    }
    report.table(&table);
    let measured = format!("{}, {} × governor's", short(ours), short(ours / base));
    report.goal(Goal::new(Row::InMemory, "instructions", "≤ 542", measured, ours <= 542.0));
}

/// A check and a wait of a bucket that never empties.
fn waits(bench: &Bench<'_>) -> Vec<Measured<f64>> {
    let bucket = ours::builder().algorithm(Algorithm::TokenBucket).max(1_000_000_000_000);
    let (limiter, policy) = (RateLimiter::in_memory(), bucket.build());
    let (limiter, policy, times) = (&limiter, &policy, bench.settings.micro_times);
    let allowed = |outcome: Option<bool>| assert_eq!(outcome, Some(true), "decided at once");
    let check = Variant::timed("check", times, move || {
        allowed(
            limiter
                .check(policy, "a")
                .now_or_never()
                .map(|outcome| outcome.is_ok_and(|one| one.is_allowed())),
        );
    });
    let wait = Variant::timed("wait", times, move || {
        let outcome = limiter.wait(policy, "a", 1, Duration::ZERO).now_or_never();
        allowed(outcome.map(|outcome| outcome.is_ok_and(|one| one.is_allowed())));
    });
    take_turns(bench.settings.micro_rounds, vec![check, wait])
}

/// All deciders under the same load.
fn race(bench: &Bench<'_>, threads: u64, number: u64) -> Vec<Measured<f64>> {
    // Long enough for threads to be at it together.
    let times = bench.settings.micro_times * if threads == 1 { 1 } else { 5 };
    let population = AtomicU64::new(0);
    let variants = NAMES.iter().map(|name| {
        let (decide, population) = (memory::make(name), &population);
        Variant::new(*name, move || {
            // A single caller is another one each time, so that no check reaches the limit.
            let population = if number == 1 { population.fetch_add(1, Ordering::Relaxed) as u16 } else { 0 };
            let callers = Callers { population, number };
            nanos(&decide, callers, threads, times)
        })
    });
    take_turns(bench.settings.micro_rounds, variants.collect())
}

/// Nanoseconds that each of `threads` threads needs for a check.
pub(crate) fn nanos(decide: &Decide, callers: Callers, threads: u64, times: u64) -> f64 {
    // Chosen beforehand: choosing costs as much as deciding.
    let who = |seed| {
        let mut random = Random::seeded(seed + 1);
        (0..times).map(|_| callers.any(&mut random)).collect::<Vec<Caller>>()
    };
    let act = |who: &[Caller]| {
        let start = Instant::now();
        for caller in who {
            assert!(decide(*caller), "a check was denied");
        }
        start.elapsed().as_nanos() as f64 / who.len() as f64
    };
    if threads == 1 {
        return act(&who(0));
    }
    let lists: Vec<_> = (0..threads).map(who).collect();
    let begin = Barrier::new(lists.len());
    let sum: f64 = std::thread::scope(|scope| {
        let together = |list| {
            begin.wait();
            act(list)
        };
        let running: Vec<_> = lists.iter().map(|list| scope.spawn(move || together(list))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    sum / threads as f64
}
