//! Several processes at one server over a network: what the server spends on short answers, and whether it takes that back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::network::{Number, ratio};
use super::{Bench, two_windows};
use crate::caller::Caller;
use crate::drive::Decider;
use crate::network::Distant;
use crate::report::{Goal, Report, Row};
use crate::rivals::{Rival, Way, Wire};
use crate::rounds::{Variant, find, take_turns};
use crate::server::{self, Server};
use crate::spread::short;
use crate::table::Table;
use crate::timing::{Arrivals, time};

const OURS: &str = "ours";
const PROCESSES: [usize; 3] = [1, 4, 16];
const ROUND_TRIP: Duration = Duration::from_micros(500);

/// Checks a second of all processes together, and tasks that saturate what they can.
const LOADS: [Arrivals; 4] =
    [Arrivals::PerSecond(2000), Arrivals::PerSecond(8000), Arrivals::Tasks(128), Arrivals::Tasks(1024)];

/// The deciders of several processes, which take turns.
#[derive(Clone)]
struct Several<D> {
    deciders: Arc<[D]>,
    next: Arc<AtomicUsize>,
}

impl<D: Decider> Several<D> {
    fn new(deciders: impl Iterator<Item = D>) -> Self {
        Self { deciders: deciders.collect(), next: Arc::default() }
    }
}

impl<D: Decider> Decider for Several<D> {
    async fn decide(&self, caller: Caller) -> bool {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        self.deciders[next % self.deciders.len()].decide(caller).await
    }
}

/// Measures and reports.
pub fn run(bench: &Bench<'_>, servers: &[Server], report: &mut Report) {
    servers[0].flush();
    report.section("Several processes, one server");
    report.text(
        "As many stores as processes, each with its own connection and thread, at a round trip of 0.5 ms; checks of a row are of all together.",
    );
    let mut table =
        Table::new(["processes", "load", "lean: p50 us", "ours: p50 us", "×", "1/s", "×", "Redis ns ×"]);
    let distant = Distant::new(servers[0].port(), ROUND_TRIP);
    let url = server::url(distant.port());
    let rival = || {
        let wire = Wire::Single(bench.runtime.block_on(server::connect(&url)));
        Rival::new(Way::Lean, wire, servers)
    };
    for processes in PROCESSES {
        let ours = Several::new((0..processes).map(|_| two_windows(&url)));
        let lean = Several::new((0..processes).map(|_| rival()));
        for load in LOADS {
            let span = bench.settings.span;
            let measured = take_turns(
                bench.settings.rounds,
                vec![
                    Variant::new(Way::Lean.name(), || time(&bench.runtime, &lean, servers, load, span)),
                    Variant::new(OURS, || time(&bench.runtime, &ours, servers, load, span)),
                ],
            );
            let number = |name, number: Number| short(find(&measured, name).spread(number).median);
            let ratio = |number| ratio(&measured, OURS, number);
            table.row([
                processes.to_string(),
                load.to_string(),
                number(Way::Lean.name(), |one| one.p50),
                number(OURS, |one| one.p50),
                ratio(|one| one.p50).to_string(),
                number(OURS, |one| one.per_second),
                ratio(|one| one.per_second).to_string(),
                ratio(|one| one.server_ns).to_string(),
            ]);
            if load == LOADS[LOADS.len() - 1] {
                let what = format!("{processes} processes, {load}");
                let measured = ratio(|one| one.per_second);
                report.goal(Goal::at_least(Row::Processes, what, 1.0, " × lean", measured));
            }
        }
    }
    report.table(&table);
}
