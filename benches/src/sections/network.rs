//! How long a check takes over a network, beside a plain script.

use std::time::Duration;

use super::{Bench, two_windows};
use crate::cluster::Cluster;
use crate::drive::Decider;
use crate::network::Distant;
use crate::plot::{Line, Plot};
use crate::report::{Goal, Report, Row};
use crate::rivals::{Rival, Way, Wire};
use crate::rounds::{Measured, Variant, find, take_turns};
use crate::server::{self, Server};
use crate::spread::{Spread, short};
use crate::table::Table;
use crate::timing::{Arrivals, Times, time};

const OURS: &str = "ours";

/// Round trips, in microseconds: one rack, one data centre, two of them.
const ROUND_TRIPS: [u64; 3] = [250, 500, 2000];

/// The round trip at which every script is measured, and the cluster.
const USUAL: u64 = 500;

const TASKS: [u64; 6] = [1, 2, 4, 8, 32, 128];
const RATES: [u64; 3] = [500, 2000, 8000];

/// All loads.
fn loads() -> impl Iterator<Item = Arrivals> {
    TASKS.into_iter().map(Arrivals::Tasks).chain(RATES.into_iter().map(Arrivals::PerSecond))
}

/// One of the times.
pub(super) type Number = fn(&Times) -> f64;

/// What was measured under one load.
type Cell = (Arrivals, Vec<Measured<Times>>);

/// Measures and reports.
pub fn run(bench: &Bench<'_>, servers: &[Server], report: &mut Report) {
    report.section("Over a network");
    report.text(
        "*Tasks* ask again as soon as they have their answer; *a second* are checks at random times. 1000 callers. × is to the lean script.",
    );
    let mut added = Vec::new();
    for round_trip in ROUND_TRIPS {
        servers[0].flush();
        let distant = Distant::new(servers[0].port(), Duration::from_micros(round_trip));
        let url = server::url(distant.port());
        let mut ways = vec![Way::Incr, Way::Lean];
        if round_trip == USUAL {
            ways.extend([Way::TwoKeys, Way::FixedWindow, Way::Log, Way::LookThenCount]);
        }
        let connect = || Wire::Single(bench.runtime.block_on(server::connect(&url)));
        let rivals: Vec<Rival> = ways.into_iter().map(|way| Rival::new(way, connect(), servers)).collect();
        let cells = cells(bench, servers, &rivals, &url);
        let milliseconds = round_trip as f64 / 1000.0;
        report.text(&format!("A round trip of {milliseconds} ms:"));
        report.table(&table(&cells));
        goals(&cells, &format!("{milliseconds} ms"), [1.08, 1.25], report);
        if round_trip == USUAL {
            report.plot("network-p50", &plot(&cells, milliseconds));
        }
        let p50 = |name| find(&cells[0].1, name).each(|times| times.p50);
        added.push(Spread::difference(&p50(OURS), &p50(Way::Incr.name())).median);
    }
    in_cluster(bench, report);
    report.conclude(&format!(
        "A limit adds one round trip and about {} us.",
        short(added.iter().sum::<f64>() / added.len() as f64)
    ));
}

fn in_cluster(bench: &Bench<'_>, report: &mut Report) {
    let cluster = Cluster::at_distance(Duration::from_micros(USUAL));
    let wire = || Wire::Cluster(bench.runtime.block_on(cluster.connect()));
    let rivals = [Way::Incr, Way::Lean].map(|way| Rival::new(way, wire(), &cluster.nodes));
    let cells = cells(bench, &cluster.nodes, &rivals, &cluster.url());
    let milliseconds = USUAL as f64 / 1000.0;
    report.text(&format!("A cluster of three, a round trip of {milliseconds} ms:"));
    report.table(&table(&cells));
    goals(&cells, &format!("cluster, {milliseconds} ms"), [1.12, f64::INFINITY], report);
}

/// Measures all loads on these rivals and on ours at `url`.
fn cells(bench: &Bench<'_>, servers: &[Server], rivals: &[Rival], url: &str) -> Vec<Cell> {
    let ours = two_windows(url);
    loads()
        .map(|load| {
            let mut variants: Vec<Variant<'_, Times>> = rivals
                .iter()
                .map(|rival| variant(bench, servers, rival.way().name(), rival.clone(), load))
                .collect();
            variants.push(variant(bench, servers, OURS, ours.clone(), load));
            // There are many cells, and few rounds say the same.
            (load, take_turns(bench.settings.rounds.div_ceil(2), variants))
        })
        .collect()
}

fn variant<'a>(
    bench: &'a Bench<'_>,
    servers: &'a [Server],
    name: &str,
    decider: impl Decider,
    load: Arrivals,
) -> Variant<'a, Times> {
    Variant::new(name, move || time(&bench.runtime, &decider, servers, load, bench.settings.span))
}

/// How often a number of ours is that of the lean script, round by round.
pub(super) fn ratio(measured: &[Measured<Times>], name: &str, number: Number) -> Spread {
    Spread::ratio(&find(measured, name).each(number), &find(measured, Way::Lean.name()).each(number))
}

fn table(cells: &[Cell]) -> Table {
    let head = ["load", "lean p50, p99 us", "ours p50, p99 us", "p50 ×", "p99 ×", "1/s ×"].map(str::to_owned);
    let others: Vec<&str> = cells[0].1.iter().map(|one| &*one.name).collect();
    let others: Vec<&str> =
        others.into_iter().filter(|name| ![OURS, Way::Lean.name()].contains(name)).collect();
    // One alone is only there for what a limit adds.
    let others = if others.len() > 1 { others } else { Vec::new() };
    let mut table = Table::new(head.into_iter().chain(others.iter().map(|name| format!("{name}: p50 us"))));
    for (load, measured) in cells {
        let microseconds = |name, number: Number| short(find(measured, name).spread(number).median);
        let both =
            |name| format!("{}, {}", microseconds(name, |one| one.p50), microseconds(name, |one| one.p99));
        let rate = match load {
            Arrivals::Tasks(_) => ratio(measured, OURS, |one| one.per_second).to_string(),
            Arrivals::PerSecond(_) => "–".to_owned(),
        };
        let ratios = [ratio(measured, OURS, |one| one.p50), ratio(measured, OURS, |one| one.p99)]
            .map(|ratio| ratio.to_string());
        let row = [load.to_string(), both(Way::Lean.name()), both(OURS)].into_iter();
        let row = row.chain(ratios).chain([rate]);
        table.row(row.chain(others.iter().map(|name| microseconds(name, |one| one.p50))));
    }
    table
}

/// The goals of the worst load: p50 and p99, × lean.
fn goals(cells: &[Cell], place: &str, most: [f64; 2], report: &mut Report) {
    let numbers: [Number; 2] = [|one| one.p50, |one| one.p99];
    for ((name, number), most) in ["p50", "p99"].into_iter().zip(numbers).zip(most) {
        let all = cells.iter().map(|(load, measured)| (load, ratio(measured, OURS, number)));
        let worst = all.max_by(|one, other| one.1.median.total_cmp(&other.1.median));
        if let Some((load, ratio)) = worst.filter(|_| most.is_finite()) {
            let what = format!("{place}, worst {name}: {load}");
            report.goal(Goal::at_most(Row::Network, what, most, " × lean", ratio));
        }
    }
}

fn plot(cells: &[Cell], milliseconds: f64) -> Plot {
    let names = cells[0].1.iter().map(|one| one.name.clone());
    let tasks = |load: &Arrivals| match load {
        Arrivals::Tasks(tasks) => Some(*tasks as f64),
        Arrivals::PerSecond(_) => None,
    };
    let lines = names.map(|name| {
        let points = cells
            .iter()
            .filter_map(|(load, measured)| Some((tasks(load)?, find(measured, &name).spread(|one| one.p50))));
        Line { name: name.clone(), points: points.collect() }
    });
    Plot {
        title: format!("p50 of a check at a round trip of {milliseconds} ms"),
        x: "tasks".to_owned(),
        y: "us".to_owned(),
        lines: lines.collect(),
    }
}
