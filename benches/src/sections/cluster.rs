//! Decisions a second through a cluster of three nodes.

use super::throughput::{OURS, costs, load};
use super::{Bench, contender, two_windows};
use crate::cluster::Cluster;
use crate::report::Report;
use crate::rivals::{Rival, Way, Wire};
use crate::rounds::take_turns;
use crate::server::Server;

/// Measures and reports.
pub fn run(bench: &Bench<'_>, report: &mut Report) {
    let cluster = Cluster::start();
    report.section("Throughput through a cluster of three nodes");
    report.text("All three on the same cores as the client. × lean is to one lean EVALSHA a check.");
    let tasks: &[u64] = if bench.settings.is_thorough { &[1, 8, 64, 512] } else { &[64, 512] };
    let callers = [1, 1000, bench.settings.crowd];
    for (callers, tasks) in
        callers.into_iter().flat_map(|callers| tasks.iter().map(move |tasks| (callers, *tasks)))
    {
        cluster.nodes.iter().for_each(Server::flush);
        let load = || load(bench, tasks, callers);
        let mut variants = Vec::new();
        for way in [Way::Incr, Way::Lean, Way::TwoKeys] {
            let wire = Wire::Cluster(bench.runtime.block_on(cluster.connect()));
            let rival = Rival::new(way, wire, &cluster.nodes);
            variants.push(contender(bench, &cluster.nodes, way.name(), rival, load));
        }
        variants.push(contender(bench, &cluster.nodes, OURS, two_windows(&cluster.url()), load));
        let title = if callers == 1 { "one caller".to_owned() } else { format!("{callers} callers") };
        report.text(&format!("{tasks} tasks over {title}:"));
        report.table(&costs(&take_turns(bench.settings.rounds, variants)));
    }
}
