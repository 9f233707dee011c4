//! Several processes at one server over a network: what the server spends on short answers, and whether it
//! takes that back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ratelimit_actix::RateLimiter;
use tokio::runtime::{Builder, Runtime};

use super::network::{Number, ratio};
use super::{Bench, two_windows};
use crate::caller::Caller;
use crate::cpu;
use crate::drive::Decider;
use crate::network::Distant;
use crate::ours::{self, Ours};
use crate::report::{Goal, Report, Row};
use crate::rivals::{Rival, Way, Wire};
use crate::rounds::{Variant, find, take_turns};
use crate::server::{self, Server};
use crate::spread::short;
use crate::table::Table;
use crate::timing::{Arrivals, Times, time};

const OURS: &str = "ours";
const PROCESSES: [usize; 3] = [1, 4, 16];
const ROUND_TRIP: Duration = Duration::from_micros(500);

/// Checks a second of all processes together, and tasks that saturate what they can.
const LOADS: [Arrivals; 4] =
    [Arrivals::PerSecond(2000), Arrivals::PerSecond(8000), Arrivals::Tasks(128), Arrivals::Tasks(1024)];

/// Processes with several runtimes of one thread each, as Actix servers, and their tasks in all.
const SERVERS: usize = 16;
const RUNTIMES: usize = 4;
const TASKS: u64 = 1024;
/// Half of the deadline by default, in microseconds.
const HALF_OF_DEADLINE: f64 = 50_000.0;

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
    several_runtimes(bench, servers, &url, report);
}

/// As many processes that have several runtimes each, at a full server.
fn several_runtimes(bench: &Bench<'_>, servers: &[Server], url: &str, report: &mut Report) {
    let runtimes: Vec<Runtime> =
        (0..RUNTIMES).map(|_| Builder::new_current_thread().enable_all().build().unwrap()).collect();
    let store = || {
        let store = ours::store(url).connections(RUNTIMES + 1).build().unwrap();
        Ours::new(&ours::ready(RateLimiter::new(store)), ours::builder().build()).on_worker()
    };
    let ours = Several::new((0..SERVERS).map(|_| store()));
    let lean = runtimes.iter().map(|runtime| {
        let rival = || Rival::new(Way::Lean, Wire::Single(runtime.block_on(server::connect(url))), servers);
        Several::new((0..SERVERS).map(|_| rival()))
    });
    let lean: Vec<_> = lean.collect();
    let span = bench.settings.span;
    let measured = take_turns(
        bench.settings.rounds,
        vec![
            Variant::new(Way::Lean.name(), || together(servers, runtimes.iter().zip(&lean), span)),
            Variant::new(OURS, || together(servers, runtimes.iter().map(|runtime| (runtime, &ours)), span)),
        ],
    );
    let mut table = Table::new(["what", "1/s", "× lean", "p50 us", "p99 us", "Redis ns ×"]);
    for name in [Way::Lean.name(), OURS] {
        let number = |number: Number| short(find(&measured, name).spread(number).median);
        table.row([
            name.to_owned(),
            number(|one| one.per_second),
            ratio(&measured, name, |one| one.per_second).to_string(),
            number(|one| one.p50),
            number(|one| one.p99),
            ratio(&measured, name, |one| one.server_ns).to_string(),
        ]);
    }
    report.text(&format!(
        "{SERVERS} processes of {RUNTIMES} runtimes with one thread each, {TASKS} tasks; lean has a connection of each runtime as well:"
    ));
    report.table(&table);
    let what = format!("{SERVERS} processes of {RUNTIMES} runtimes, p99");
    let p99 = find(&measured, OURS).spread(|one| one.p99);
    report.goal(Goal::at_most(Row::Processes, what, HALF_OF_DEADLINE, " us", p99));
}

/// A part of the tasks on each runtime, by its decider; the longest times of all.
fn together<'a, D: Decider>(
    servers: &[Server],
    parts: impl Iterator<Item = (&'a Runtime, &'a Several<D>)>,
    span: Duration,
) -> Times {
    let (server, start) = (cpu::of_servers(servers), Instant::now());
    let load = Arrivals::Tasks(TASKS / RUNTIMES as u64);
    let times: Vec<Times> = thread::scope(|scope| {
        let parts =
            parts.map(|(runtime, decider)| scope.spawn(move || time(runtime, decider, &[], load, span)));
        let parts: Vec<_> = parts.collect();
        parts.into_iter().map(|part| part.join().unwrap()).collect()
    });
    let longest = |number: Number| times.iter().map(number).fold(0.0, f64::max);
    let per_second = times.iter().map(|one| one.per_second).sum::<f64>();
    let decisions = per_second * start.elapsed().as_secs_f64();
    let server_ns = (cpu::of_servers(servers) - server) / decisions;
    Times { p50: longest(|one| one.p50), p99: longest(|one| one.p99), per_second, server_ns }
}
