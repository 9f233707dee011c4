//! How the cost of a decision grows: with the entries of a log, with sub-windows, with callers.

use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use ratelimit_actix::{Algorithm, MemoryStore, Policy};

use super::in_memory::nanos;
use super::{Bench, contender};
use crate::caller::{Caller, Callers};
use crate::clocks::Ticking;
use crate::drive::Load;
use crate::memory::{self, Decide, FLOOR_STILL, GOVERNOR_STILL, OURS_STILL};
use crate::ours::{self, Ours};
use crate::report::Report;
use crate::rounds::{Measured, Variant, take_turns};
use crate::server::Server;
use crate::spread::{Spread, short};
use crate::svg::{Line, Plot};
use crate::table::Table;

const SUB_WINDOWS: [u64; 5] = [1, 6, 10, 30, 60];

/// Measures and reports what happens in this process.
pub fn in_memory(bench: &Bench<'_>, report: &mut Report) {
    report.section("As it grows, in memory");
    report.text(
        "A log in which one entry leaves whenever one comes, by number of entries (`max`) in the window; the other \
         algorithms with the same `max`:",
    );
    let sizes = [10_u64, 100, 1000, 10_000, 100_000];
    let one = |algorithm: Algorithm, max: u64| {
        let window = Duration::from_secs(1);
        let policy = Policy::builder("k").algorithm(algorithm).max(max).window(window).build();
        // A little more than the pace at which every check passes.
        let step = window.as_micros() as u64 / max + 1;
        filled(policy, Ticking::new(step), max)
    };
    let log = Algorithm::SlidingWindowLog;
    let others = Algorithm::ALL.iter().copied().filter(|algorithm| *algorithm != log);
    let lines = [log].into_iter().chain(others);
    let lines = lines.map(|algorithm| (algorithm.as_str(), sizes.map(|max| one(algorithm, max))));
    let lines: Vec<_> = lines.collect();
    hot(bench, report, "growth-max", "max", sizes, &lines);

    report.text("A sliding window counter by number of sub-windows, all with counts in them:");
    let one = |sub_windows: u64| {
        let policy = ours::builder().sub_windows(sub_windows).window(Duration::from_secs(60)).build();
        // A hundred requests in each sub-window.
        filled(policy, Ticking::new(60_000_000 / sub_windows / 100), 100 * (sub_windows + 1))
    };
    let lines = [("sliding_window_counter", SUB_WINDOWS.map(one))];
    hot(bench, report, "growth-sub-windows", "sub-windows", SUB_WINDOWS, &lines);

    report.text("Two windows by number of callers, checked in any order (beyond the processor's caches it is their misses that count):");
    let mut sizes = [1, 1000, 30_000, bench.settings.crowd];
    sizes.sort_unstable();
    let cells: Vec<_> = sizes.iter().map(|&number| crowd(bench, number)).collect();
    show(report, "growth-callers", "callers", &sizes, &cells);
}

/// Ours with a state as full as it gets.
fn filled(policy: Policy, clock: Ticking, checks: u64) -> Decide {
    let decide = memory::in_store(MemoryStore::new().with_clock(clock), policy);
    for _ in 0..checks {
        assert!(decide(Caller::new(0, 0)), "a check was denied");
    }
    decide
}

/// One caller, and a plot with a line for each of `lines`.
fn hot<const N: usize>(
    bench: &Bench<'_>,
    report: &mut Report,
    file: &str,
    x: &str,
    sizes: [u64; N],
    lines: &[(&str, [Decide; N])],
) {
    let callers = Callers { population: 0, number: 1 };
    let times = bench.settings.micro_times;
    let cells: Vec<Vec<Measured<f64>>> = (0..N)
        .map(|i| {
            let variants = lines
                .iter()
                .map(|(name, sizes)| Variant::new(*name, move || nanos(&sizes[i], callers, 1, times)));
            take_turns(bench.settings.micro_rounds, variants.collect())
        })
        .collect();
    show(report, file, x, &sizes, &cells);
}

/// All deciders in memory, by number of callers.
fn crowd(bench: &Bench<'_>, number: u64) -> Vec<Measured<f64>> {
    let population = AtomicU16::new(0);
    let names = [OURS_STILL, GOVERNOR_STILL, FLOOR_STILL];
    let variants = names.iter().map(|name| {
        let (decide, population) = (memory::make(name), &population);
        for number in 0..number {
            assert!(decide(Caller::new(0, number)));
        }
        Variant::new(*name, move || {
            // A single caller is another one each time, so that no check reaches the limit.
            let population = if number == 1 { population.fetch_add(1, Ordering::Relaxed) } else { 0 };
            nanos(&decide, Callers { population, number }, 1, bench.settings.micro_times)
        })
    });
    take_turns(bench.settings.micro_rounds, variants.collect())
}

/// A table and a plot.
fn show(report: &mut Report, file: &str, x: &str, sizes: &[u64], cells: &[Vec<Measured<f64>>]) {
    let head = [format!("ns, by {x}")].into_iter().chain(sizes.iter().map(ToString::to_string));
    let mut table = Table::new(head.collect::<Vec<_>>());
    let mut lines = Vec::new();
    for (i, one) in cells[0].iter().enumerate() {
        let spreads: Vec<Spread> = cells.iter().map(|cell| Spread::of(cell[i].rounds.clone())).collect();
        let row = [one.name.clone()].into_iter().chain(spreads.iter().map(Spread::to_string));
        table.row(row.collect::<Vec<_>>());
        let points = sizes.iter().map(|&size| size as f64).zip(spreads).collect();
        lines.push(Line { name: one.name.clone(), points });
    }
    report.table(&table);
    let title = format!("Nanoseconds of a check, by {x}");
    report.plot(file, &Plot { title, x: x.to_owned(), y: "ns".to_owned(), lines });
}

/// Measures and reports what happens in Redis.
pub fn in_redis(bench: &Bench<'_>, servers: &[Server], report: &mut Report) {
    servers[0].flush();
    report.section("As it grows, in Redis");
    report.text(
        "Processor time of Redis for a decision, 16 tasks over 16 callers. Windows are short, so that they move while it \
         is measured: all sub-windows have counts in them, and as many entries leave a log as come.",
    );
    let limiter = ours::connect(&servers[0].url());
    let cost = |policy: &Policy| {
        let load = Load {
            tasks: 16,
            callers: Callers { population: 0, number: 16 },
            span: bench.settings.span.max(policy.window()),
        };
        let ours = Ours::new(&limiter, policy.clone());
        let variant = contender(bench, servers, "ours", ours, move || load);
        take_turns(bench.settings.rounds, vec![variant])[0].spread(|one| one.server_ns)
    };
    let mut table = Table::new(["sub-windows", "Redis ns"]);
    for sub_windows in SUB_WINDOWS {
        let window = Duration::from_millis(300);
        let policy = Policy::builder("growth").max(1_000_000).window(window).sub_windows(sub_windows).build();
        table.row([sub_windows.to_string(), cost(&policy).to_string()]);
    }
    report.table(&table);
    let mut table = Table::new(["window of the log", "entries of a caller", "Redis ns"]);
    for millis in [2, 20, 200] {
        let window = Duration::from_millis(millis);
        let log =
            Policy::builder("growth").max(1_000_000).window(window).algorithm(Algorithm::SlidingWindowLog);
        let policy = log.build();
        let cost = cost(&policy);
        let held = bench.runtime.block_on(limiter.peek(&policy, Caller::new(0, 7))).unwrap();
        // What is left of it by now; the load ended a moment ago.
        let entries = policy.max() - held.remaining();
        table.row([format!("{millis} ms"), short(entries as f64), cost.to_string()]);
    }
    report.table(&table);
}
