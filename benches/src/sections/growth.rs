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
use crate::plot::{Line, Plot};
use crate::report::Report;
use crate::rounds::{Measured, Variant, take_turns};
use crate::server::Server;
use crate::spread::{Spread, round, short};
use crate::table::Table;

const SUB_WINDOWS: [u64; 5] = [1, 6, 10, 30, 60];

/// Measures and reports what happens in this process.
pub fn in_memory(bench: &Bench<'_>, report: &mut Report) {
    report.section("As it grows, in memory");
    report.text(
        "A log in which one entry leaves whenever one comes, and the other algorithms with the same `max`:",
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
    let by_max = hot(bench, report, "growth-max", "max", sizes, &lines);

    report.text("A sliding window counter by number of sub-windows, all with counts in them:");
    let one = |sub_windows: u64| {
        let policy = ours::builder().sub_windows(sub_windows).window(Duration::from_secs(60)).build();
        // A hundred requests in each sub-window.
        filled(policy, Ticking::new(60_000_000 / sub_windows / 100), 100 * (sub_windows + 1))
    };
    let lines = [("sliding_window_counter", SUB_WINDOWS.map(one))];
    let by_sub_windows = hot(bench, report, "growth-sub-windows", "sub-windows", SUB_WINDOWS, &lines);

    report.text("Two windows by number of callers, checked in any order:");
    let mut sizes = [1, 1000, 30_000, bench.settings.crowd];
    sizes.sort_unstable();
    let cells: Vec<_> = sizes.iter().map(|&number| crowd(bench, number)).collect();
    let by_callers = show(report, "growth-callers", "callers", &sizes, &cells);
    report.conclude(&format!(
        "In memory, a check of a log of 100,000 entries takes {} × the time of one of 10, of 60 sub-windows {} × that of one \
         window, and of any of {} callers {} × that of one.",
        short(by_max),
        short(by_sub_windows),
        round(bench.settings.crowd as f64),
        short(by_callers),
    ));
}

/// Ours with a state as full as it gets.
fn filled(policy: Policy, clock: Ticking, checks: u64) -> Decide {
    let decide = memory::in_store(MemoryStore::new().with_clock(clock), policy);
    for _ in 0..checks {
        assert!(decide(Caller::new(0, 0)), "a check was denied");
    }
    decide
}

/// One caller, and a plot with a line for each of `lines`. Returns how often the first line's last median is
/// its first.
fn hot<const N: usize>(
    bench: &Bench<'_>,
    report: &mut Report,
    file: &str,
    x: &str,
    sizes: [u64; N],
    lines: &[(&str, [Decide; N])],
) -> f64 {
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
    show(report, file, x, &sizes, &cells)
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

/// A table and a plot. Returns how often the first line's last median is its first.
fn show(report: &mut Report, file: &str, x: &str, sizes: &[u64], cells: &[Vec<Measured<f64>>]) -> f64 {
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
    let medians: Vec<f64> = lines[0].points.iter().map(|(_, spread): &(f64, Spread)| spread.median).collect();
    report.plot(file, &Plot { title, x: x.to_owned(), y: "ns".to_owned(), lines });
    medians[medians.len() - 1] / medians[0]
}

/// Measures and reports what happens in Redis.
pub fn in_redis(bench: &Bench<'_>, servers: &[Server], report: &mut Report) {
    servers[0].flush();
    report.section("As it grows, in Redis");
    report.text("Processor time of Redis for a decision, 16 tasks over 16 callers, while windows move.");
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
    let mut by_sub_windows = Vec::new();
    for sub_windows in SUB_WINDOWS {
        let window = Duration::from_millis(300);
        let policy = Policy::builder("growth").max(1_000_000).window(window).sub_windows(sub_windows).build();
        let cost = cost(&policy);
        by_sub_windows.push(cost.median);
        table.row([sub_windows.to_string(), cost.to_string()]);
    }
    report.table(&table);
    let mut table = Table::new(["window of the log", "entries of a caller", "Redis ns"]);
    let mut by_entries = Vec::new();
    for millis in [2, 20, 200] {
        let window = Duration::from_millis(millis);
        let log =
            Policy::builder("growth").max(1_000_000).window(window).algorithm(Algorithm::SlidingWindowLog);
        let policy = log.build();
        let cost = cost(&policy);
        let held = bench.runtime.block_on(limiter.peek(&policy, Caller::new(0, 7))).unwrap();
        // What is left of it by now; the load ended a moment ago.
        let entries = policy.max() - held.remaining();
        by_entries.push((entries, cost.median));
        table.row([format!("{millis} ms"), short(entries as f64), cost.to_string()]);
    }
    report.table(&table);
    let ((few, short_log), (many, long_log)) = (by_entries[0], by_entries[by_entries.len() - 1]);
    report.conclude(&format!(
        "In Redis, a check of 60 sub-windows takes {} × the time of one window, and of a log of {many} entries {} × that of one \
         of {few}.",
        short(by_sub_windows[SUB_WINDOWS.len() - 1] / by_sub_windows[0]),
        short(long_log / short_log),
    ));
}
