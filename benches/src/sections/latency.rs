//! One check with nothing else in flight: how long it takes, how many calls to the server it makes, and how
//! many context switches rounds take that are much slower than the others.

use std::time::Instant;

use tokio::runtime::{Builder, Runtime};

use super::{Bench, two_windows};
use crate::caller::Caller;
use crate::drive::Decider;
use crate::ours::{self, Ours};
use crate::report::{Goal, Report, Row};
use crate::rivals::{Rival, Way, Wire};
use crate::rounds::{Measured, Variant, find, take_turns};
use crate::scheduling::Scheduling;
use crate::server::Server;
use crate::spread::{Spread, short};
use crate::table::Table;

const OURS: &str = "ours";

/// A round is slow when its median is this many times that of all rounds.
const SLOW: f64 = 3.0;

/// Checks one after the other.
#[derive(Clone, Copy, Debug)]
struct Block {
    p50: f64,
    p99: f64,
    /// Of this process and the server, for a check.
    scheduling: Scheduling,
}

/// Measures and reports.
pub fn run(bench: &Bench<'_>, servers: &[Server], report: &mut Report) {
    servers[0].flush();
    report.section("One check with nothing else in flight");
    let single = Builder::new_current_thread().enable_all().build().unwrap();
    let places = [
        ("a runtime with two threads", &bench.runtime, two_windows(&servers[0].url())),
        (
            "a runtime with one thread, as Actix's workers have",
            &single,
            two_windows(&servers[0].url()).on_worker(),
        ),
    ];
    let mut all = Vec::new();
    for (place, runtime, ours) in places {
        report.text(&format!("Blocks of checks one after the other, on {place}:"));
        let mut variants = Vec::new();
        for way in [Way::Incr, Way::Empty, Way::Lean, Way::TwoKeys] {
            let rival = Rival::new(way, Wire::Single(runtime.block_on(servers[0].connect())), servers);
            variants.push(block(bench, servers, runtime, way.name(), rival));
        }
        variants.push(block(bench, servers, runtime, OURS, ours));
        let measured = take_turns(bench.settings.goal_rounds.max(3) * 3, variants);
        report.table(&times(&measured));
        let ratio = medians(find(&measured, OURS), find(&measured, Way::Lean.name()));
        report.goal(Goal::at_most(Row::LoneCheck, format!("p50 on {place}"), 1.5, " × lean", ratio));
        all.push((place, measured));
    }
    round_trips(bench, servers, report);
    conclude(&all, report);
}

fn round_trips(bench: &Bench<'_>, servers: &[Server], report: &mut Report) {
    let checks = 200;
    let decider = Ours::new(&ours::connect(&servers[0].url()), ours::builder().build());
    let before = servers[0].script_calls();
    for number in 0..checks {
        assert!(bench.runtime.block_on(decider.decide(Caller::new(0, number))));
    }
    let calls = (servers[0].script_calls() - before) as f64 / checks as f64;
    let measured = format!("{calls:.2} script calls a check");
    report.goal(Goal::new(Row::LoneCheck, "round trips", "1", measured, (0.99..1.02).contains(&calls)));
}

/// Some checks, one after the other.
fn block<'a>(
    bench: &Bench<'_>,
    servers: &'a [Server],
    runtime: &'a Runtime,
    name: &str,
    decider: impl Decider,
) -> Variant<'a, Block> {
    let checks = (bench.settings.micro_times / 50).clamp(20, 400);
    Variant::new(name, move || {
        let decider = decider.clone();
        let pids = [std::process::id(), servers[0].pid()];
        let counts =
            || pids.map(Scheduling::of_process).into_iter().fold(Scheduling::default(), |sum, one| sum + one);
        let counts_before = counts();
        // As a task: what `block_on` itself runs is on another thread than the connection.
        let task = runtime.spawn(async move {
            let mut times = Vec::new();
            for number in 0..checks {
                let start = Instant::now();
                assert!(decider.decide(Caller::new(0, number)).await, "a check was denied");
                times.push(start.elapsed().as_nanos() as f64);
            }
            times
        });
        let times = runtime.block_on(task).unwrap();
        let checks = checks as f64;
        Block {
            p50: Spread::quantile(&times, 0.5),
            p99: Spread::quantile(&times, 0.99),
            scheduling: (counts() - counts_before) / checks,
        }
    })
}

/// How often the median of one is that of the other.
fn medians(one: &Measured<Block>, other: &Measured<Block>) -> Spread {
    Spread::ratio(&one.each(|block| block.p50), &other.each(|block| block.p50))
}

fn times(measured: &[Measured<Block>]) -> Table {
    let mut table = Table::new(["what", "p50 ns", "× lean", "p99 ns"]);
    let lean = find(measured, Way::Lean.name());
    for one in measured {
        table.row([
            one.name.clone(),
            short(one.spread(|block| block.p50).median),
            medians(one, lean).to_string(),
            short(one.spread(|block| block.p99).median),
        ]);
    }
    table
}

/// The slow rounds of a variant.
fn slow(one: &Measured<Block>) -> Vec<Block> {
    let limit = SLOW * one.spread(|block| block.p50).median;
    one.rounds.iter().filter(|block| block.p50 > limit).copied().collect()
}

fn conclude(places: &[(&str, Vec<Measured<Block>>)], report: &mut Report) {
    let (_, measured) = &places[places.len() - 1];
    let p50 = |name| find(measured, name).spread(|block| block.p50).median / 1000.0;
    let (ours, lean) = (p50(OURS), p50(Way::Lean.name()));
    let slow_of =
        |name| -> usize { places.iter().map(|(_, measured)| slow(find(measured, name)).len()).sum() };
    let rounds: usize = places.iter().map(|(_, measured)| find(measured, OURS).rounds.len()).sum();
    let blocks: Vec<Block> = places.iter().flat_map(|(_, measured)| slow(find(measured, OURS))).collect();
    let switches = blocks.iter().map(|block| block.scheduling.hand_overs + block.scheduling.preemptions);
    let switches = if blocks.is_empty() {
        String::new()
    } else {
        format!(", with {} context switches a check", short(switches.sum::<f64>() / blocks.len() as f64))
    };
    report.conclude(&format!(
        "A check adds {} us to a request of an idle Actix worker, {} us more than a plain script. Rounds in which a check \
         took more than {SLOW} × the median: {} of {rounds}{switches} (a plain script {}, INCR {}).",
        short(ours),
        short(ours - lean),
        blocks.len(),
        slow_of(Way::Lean.name()),
        slow_of(Way::Incr.name()),
    ));
}
