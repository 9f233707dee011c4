//! Decisions a second through a cluster of three nodes.

use super::throughput::{OURS, TASKS, costs, faster, load, versus_lean};
use super::{Bench, contender, two_windows};
use crate::cluster::Cluster;
use crate::drive::Yield;
use crate::report::{Goal, Report, Row};
use crate::rivals::{Rival, Way, Wire};
use crate::rounds::{Measured, find, take_turns};
use crate::server::Server;
use crate::spread::{Spread, round};

/// The goal with the most tasks, × one lean EVALSHA a check.
const LEAST: f64 = 1.2;

/// Measures and reports.
pub fn run(bench: &Bench<'_>, report: &mut Report) {
    let cluster = Cluster::start();
    report.section("Throughput through a cluster of three nodes");
    report.text("All three on the same cores as the client.");
    let mut conclusions = Vec::new();
    for callers in [1000, bench.settings.crowd] {
        let title = format!("{} callers", round(callers as f64));
        let ratios = TASKS.map(|tasks| (tasks, cell(bench, &cluster, tasks, callers, report)));
        if let Some((tasks, ratio)) = ratios.last() {
            let what = format!("{title}, {tasks} tasks");
            report.goal(Goal::at_least(Row::Cluster, what, LEAST, " × lean", *ratio));
        }
        conclusions.push((title, ratios.to_vec()));
    }
    if bench.settings.is_thorough {
        for tasks in TASKS {
            cell(bench, &cluster, tasks, 1, report);
        }
    }
    report.conclude(&versus_lean(&conclusions));
}

/// One size: its table, and how often ours is as fast as one lean EVALSHA a check.
fn cell(bench: &Bench<'_>, cluster: &Cluster, tasks: u64, number: u64, report: &mut Report) -> Spread {
    cluster.nodes.iter().for_each(Server::flush);
    let load = || load(bench, tasks, number);
    let mut variants = Vec::new();
    for way in [Way::Incr, Way::Lean, Way::TwoKeys] {
        let wire = Wire::Cluster(bench.runtime.block_on(cluster.connect()));
        let rival = Rival::new(way, wire, &cluster.nodes);
        variants.push(contender(bench, &cluster.nodes, way.name(), rival, load));
    }
    variants.push(contender(bench, &cluster.nodes, OURS, two_windows(&cluster.url()), load));
    let measured: Vec<Measured<Yield>> = take_turns(bench.settings.rounds, variants);
    let callers =
        if number == 1 { "one caller".to_owned() } else { format!("{} callers", round(number as f64)) };
    // The conclusion has the ratios of every size.
    if number == 1000 || bench.settings.is_thorough {
        report.text(&format!("{tasks} tasks over {callers}:"));
        report.table(&costs(&measured));
    }
    faster(find(&measured, OURS), find(&measured, Way::Lean.name()))
}
