//! Decisions a second through one Redis server, and what each costs the server and the client.

use std::sync::atomic::{AtomicU16, Ordering};

use tokio::runtime::Builder;

use super::{Bench, contender, rival, rival_on, two_windows};
use crate::caller::Callers;
use crate::drive::{Load, Yield, drive};
use crate::ours::{self, Ours};
use crate::plot::{Line, Plot};
use crate::report::{Goal, Report, Row};
use crate::rivals::Way;
use crate::rounds::{Measured, Variant, find, take_turns};
use crate::server::Server;
use crate::spread::{Spread, round, short};
use crate::table::Table;

/// Our two-window counter, the default.
pub(crate) const OURS: &str = "ours, two windows";
/// Tasks of the loads.
pub(crate) const TASKS: [u64; 4] = [1, 8, 64, 512];
/// Tasks of the loads of one thread, and the goals.
const ONE_THREAD: [(u64, f64); 6] = [(1, 0.92), (2, 0.92), (8, 1.1), (32, 1.3), (64, 1.5), (512, 1.7)];
/// The deciders that are measured at every size.
const ALWAYS: [Way; 3] = [Way::Incr, Way::Lean, Way::TwoKeys];

/// Measures and reports.
pub fn run(bench: &Bench<'_>, servers: &[Server], report: &mut Report) {
    let settings = bench.settings;
    report.section("Throughput through Redis");
    report.text("512 tasks over 1000 callers, each asking again as soon as it has its answer:");
    report.table(&costs(&all_contenders(bench, servers)));
    one_thread(bench, servers, report);
    for (callers, name) in [(1, "one caller"), (1000, "1000 callers"), (settings.crowd, "many callers")] {
        let file = format!("throughput-{}", name.replace(' ', "-"));
        let title = if callers > 1000 {
            format!("{} callers, mostly not seen before", round(callers as f64))
        } else {
            name.to_owned()
        };
        let rounds = if callers == 1000 { settings.goal_rounds } else { settings.rounds };
        let cells = TASKS.map(|tasks| duel(bench, servers, tasks, callers, rounds));
        sweep(&cells, &title, &file, report);
        if callers == 1000 {
            goals(&cells, report);
        }
    }
}

/// A runtime with one thread, as that of an Actix worker.
fn one_thread(bench: &Bench<'_>, servers: &[Server], report: &mut Report) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (rival, ours) = (rival_on(&runtime, servers, Way::Lean), two_windows(&servers[0].url()).on_worker());
    let mut table = Table::new(["tasks", "lean: 1/s", "ours: 1/s", "×", "ours: client ns"]);
    for (tasks, goal) in ONE_THREAD {
        servers[0].flush();
        let load = || load(bench, tasks, 1000);
        let variants = vec![
            Variant::new(Way::Lean.name(), || drive(&runtime, &rival, servers, load())),
            Variant::new(OURS, || drive(&runtime, &ours, servers, load())),
        ];
        let measured = take_turns(bench.settings.goal_rounds, variants);
        let (lean, ours) = (find(&measured, Way::Lean.name()), find(&measured, OURS));
        let median = |one: &Measured<Yield>, number: fn(&Yield) -> f64| short(one.spread(number).median);
        let ratio = faster(ours, lean);
        table.row([
            tasks.to_string(),
            median(lean, |one| one.per_second),
            median(ours, |one| one.per_second),
            ratio.to_string(),
            median(ours, |one| one.client_ns),
        ]);
        let what = format!("one thread, {tasks} tasks");
        report.goal(Goal::at_least(Row::SingleServer, what, goal, " × lean", ratio));
    }
    report.text("A runtime with one thread, as that of an Actix worker; 1000 callers:");
    report.table(&table);
}

/// The goals for 1000 callers, and what follows from the numbers.
fn goals(cells: &[Vec<Measured<Yield>>; 4], report: &mut Report) {
    let against = |tasks, way: Way| {
        let cell =
            &cells[TASKS.iter().position(|one| *one == tasks).expect("a number of tasks that is measured")];
        faster(find(cell, OURS), find(cell, way.name()))
    };
    for (tasks, way, least, unit) in [
        (8, Way::Lean, 0.72, " × lean"),
        (64, Way::Lean, 1.7, " × lean"),
        (512, Way::Lean, 1.8, " × lean"),
        (512, Way::TwoKeys, 3.2, " × two keys"),
    ] {
        let what = format!("{tasks} tasks");
        report.goal(Goal::at_least(Row::SingleServer, what, least, unit, against(tasks, way)));
    }
    let ratios = TASKS.map(|tasks| (tasks, against(tasks, Way::Lean)));
    report.conclude(&versus_lean(&[("1000 callers".to_owned(), ratios.to_vec())]));
}

/// What follows from the ratios of ours to one lean EVALSHA a check, by tasks, for each number of callers.
pub(crate) fn versus_lean(cells: &[(String, Vec<(u64, Spread)>)]) -> String {
    let cells = cells.iter().map(|(callers, ratios)| {
        let all = ratios.iter().map(|(tasks, ratio)| format!("{} × with {tasks}", short(ratio.median)));
        let slower =
            ratios.iter().filter(|(_, ratio)| ratio.median < 1.0).map(|(tasks, _)| tasks.to_string());
        let (all, slower) = (all.collect::<Vec<_>>().join(", "), slower.collect::<Vec<_>>().join(", "));
        let follows =
            if slower.is_empty() { "never slower".to_owned() } else { format!("slower with {slower}") };
        format!("{callers}: {all}: {follows}")
    });
    let cells = cells.collect::<Vec<_>>().join("; ");
    format!("Decisions a second against a plain script, by requests in flight. {cells}.")
}

/// One number of callers at every number of tasks.
fn sweep(cells: &[Vec<Measured<Yield>>; 4], title: &str, file: &str, report: &mut Report) {
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
            format!("{}: {ratio}", short(rate.median))
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
    take_turns(bench.settings.rounds, variants)
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

/// Decisions a second, and processor time of the server for each.
pub(crate) fn costs(measured: &[Measured<Yield>]) -> Table {
    let base = Way::Lean.name();
    let lean = find(measured, base);
    let mut table = Table::new(["what", "1/s", "× lean", "Redis ns", "× lean"]);
    for one in measured {
        let pair = |number: fn(&Yield) -> f64| {
            let ratio = Spread::ratio(&one.each(number), &lean.each(number));
            [short(one.spread(number).median), ratio.to_string()]
        };
        let numbers = [pair(|one| one.per_second), pair(|one| one.server_ns)];
        table.row([one.name.clone()].into_iter().chain(numbers.into_iter().flatten()).collect::<Vec<_>>());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_follow_from_the_ratios() {
        let words = |first, second| {
            let spread = |median| Spread { low: median, median, high: median };
            versus_lean(&[("7 callers".to_owned(), vec![(1, spread(first)), (8, spread(second))])])
        };
        assert!(words(0.5, 1.0).ends_with("7 callers: 0.50 × with 1, 1.00 × with 8: slower with 1."));
        assert!(words(0.5, 0.9).ends_with("slower with 1, 8."));
        assert!(words(1.0, 1.1).ends_with("never slower."));
    }
}
