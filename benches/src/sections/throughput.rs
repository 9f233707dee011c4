//! Decisions a second through one Redis server, and what each costs the server and the client.

use std::sync::atomic::{AtomicU16, Ordering};

use super::{Bench, contender, rival, two_windows};
use crate::caller::Callers;
use crate::drive::{Load, Yield};
use crate::ours::{self, Ours};
use crate::report::{Goal, Report, Row};
use crate::rivals::Way;
use crate::rounds::{Measured, Variant, find, take_turns};
use crate::server::Server;
use crate::spread::{Spread, short};
use crate::svg::{Line, Plot};
use crate::table::Table;

/// Our two-window counter, the default.
pub(crate) const OURS: &str = "ours, two windows";
const TASKS: [u64; 4] = [1, 8, 64, 512];
/// The deciders that are measured at every size.
const ALWAYS: [Way; 3] = [Way::Incr, Way::Lean, Way::TwoKeys];

/// Measures and reports.
pub fn run(bench: &Bench<'_>, servers: &[Server], report: &mut Report) {
    let settings = bench.settings;
    report.section("Throughput through Redis");
    report.text("512 tasks over 1000 callers, each asking again as soon as it has its answer:");
    let many = all_contenders(bench, servers);
    report.table(&costs(&many));
    let mut goal = |row, way: Way, least, measured: &[Measured<Yield>]| {
        let ratio = faster(find(measured, OURS), find(measured, way.name()));
        report.goal(Goal::at_least(row, format!("against {}", way.name()), least, " ×", ratio));
    };
    goal(Row::Throughput, Way::Lean, 4.0, &many);
    goal(Row::Throughput, Way::TwoKeys, 6.0, &many);
    goal(Row::Throughput, Way::Incr, 2.0, &many);
    let hot = duel(bench, servers, 512, 1, settings.goal_rounds);
    goal(Row::HotCaller, Way::Lean, 10.0, &hot);
    report.text("512 tasks, one caller:");
    report.table(&costs(&hot));

    for (callers, name) in [(1, "one caller"), (1000, "1000 callers"), (settings.crowd, "many callers")] {
        let file = format!("throughput-{}", name.replace(' ', "-"));
        let title = if callers > 1000 {
            format!("{} callers, mostly not seen before", short(callers as f64).replace(".00", ""))
        } else {
            name.to_owned()
        };
        sweep(bench, servers, callers, &title, &file, report);
    }
}

/// One number of callers at every number of tasks.
fn sweep(bench: &Bench<'_>, servers: &[Server], callers: u64, title: &str, file: &str, report: &mut Report) {
    let cells: Vec<_> =
        TASKS.iter().map(|&tasks| duel(bench, servers, tasks, callers, bench.settings.rounds)).collect();
    let names: Vec<String> = cells[0].iter().map(|one| one.name.clone()).collect();
    let head = ["1/s, by tasks".to_owned()].into_iter().chain(TASKS.map(|tasks| tasks.to_string()));
    let mut table = Table::new(head.collect::<Vec<_>>());
    let mut lines = Vec::new();
    for name in names {
        let each = |cell: &Vec<Measured<Yield>>| find(cell, &name).spread(|one| one.per_second);
        let points: Vec<(f64, Spread)> =
            TASKS.iter().map(|&tasks| tasks as f64).zip(cells.iter().map(each)).collect();
        let row = [name.clone()].into_iter().chain(cells.iter().zip(&points).map(|(cell, (_, rate))| {
            let ratio = faster(find(cell, &name), find(cell, Way::Lean.name()));
            format!("{} = {ratio} ×", short(rate.median))
        }));
        table.row(row.collect::<Vec<_>>());
        lines.push(Line { name, points });
    }
    report.text(&format!("{title}; × is to {}:", Way::Lean.name()));
    report.table(&table);
    let title = format!("Decisions a second, {title}");
    report.plot(file, &Plot { title, x: "tasks".to_owned(), y: "1/s".to_owned(), lines });
}

/// The few, at one size.
fn duel(
    bench: &Bench<'_>,
    servers: &[Server],
    tasks: u64,
    callers: u64,
    rounds: usize,
) -> Vec<Measured<Yield>> {
    servers[0].flush();
    let load = || load(bench, tasks, callers);
    let mut variants: Vec<Variant<'_, Yield>> = ALWAYS
        .iter()
        .map(|&way| contender(bench, servers, way.name(), rival(bench, servers, way), load))
        .collect();
    variants.push(contender(bench, servers, OURS, two_windows(&servers[0].url()), load));
    take_turns(rounds, variants)
}

/// All rivals and all our algorithms, at 512 tasks and 1000 callers.
fn all_contenders(bench: &Bench<'_>, servers: &[Server]) -> Vec<Measured<Yield>> {
    servers[0].flush();
    let load = || load(bench, 512, 1000);
    let mut variants: Vec<Variant<'_, Yield>> = Way::ALL
        .iter()
        .map(|&way| contender(bench, servers, way.name(), rival(bench, servers, way), load))
        .collect();
    let limiter = ours::connect(&servers[0].url());
    for (name, policy) in ours::algorithms() {
        let name = format!("ours, {name}");
        variants.push(contender(bench, servers, &name, Ours::new(&limiter, policy), load));
    }
    take_turns(bench.settings.goal_rounds, variants)
}

/// A load; one caller alone is another one each time, so that the limit is never reached.
pub(crate) fn load(bench: &Bench<'_>, tasks: u64, number: u64) -> Load {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let population = if number == 1 { NEXT.fetch_add(1, Ordering::Relaxed) } else { 0 };
    Load { tasks, callers: Callers { population, number }, span: bench.settings.span }
}

/// How often one is as fast as the other.
pub(crate) fn faster(one: &Measured<Yield>, other: &Measured<Yield>) -> Spread {
    Spread::ratio(&one.each(|one| one.per_second), &other.each(|one| one.per_second))
}

/// Decisions a second, and processor time of server and client for each.
pub(crate) fn costs(measured: &[Measured<Yield>]) -> Table {
    let base = Way::Lean.name();
    let lean = find(measured, base);
    let mut table = Table::new(["what", "1/s", "× lean", "Redis ns", "× lean", "client ns", "× lean"]);
    for one in measured {
        let pair = |number: fn(&Yield) -> f64| {
            let ratio = Spread::ratio(&one.each(number), &lean.each(number));
            [short(one.spread(number).median), ratio.to_string()]
        };
        let numbers = [pair(|one| one.per_second), pair(|one| one.server_ns), pair(|one| one.client_ns)];
        table.row([one.name.clone()].into_iter().chain(numbers.into_iter().flatten()).collect::<Vec<_>>());
    }
    table
}
