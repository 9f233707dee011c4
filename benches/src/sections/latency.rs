//! One check with nothing else in flight: how long it takes, and how many calls to the server it makes.

use std::time::Instant;

use tokio::runtime::{Builder, Runtime};

use super::{Bench, compare, two_windows};
use crate::caller::Caller;
use crate::drive::Decider;
use crate::ours::{self, Ours};
use crate::report::{Goal, Report, Row};
use crate::rivals::{Rival, Way, Wire};
use crate::rounds::{Variant, find, take_turns};
use crate::server::Server;
use crate::spread::Spread;

const OURS: &str = "ours";

/// Measures and reports.
pub fn run(bench: &Bench<'_>, servers: &[Server], report: &mut Report) {
    servers[0].flush();
    report.section("One check with nothing else in flight");
    let single = Builder::new_current_thread().enable_all().build().unwrap();
    let places = [
        ("a runtime with two threads", &bench.runtime),
        ("a runtime with one thread, as Actix's workers have", &single),
    ];
    for (place, runtime) in places {
        report.text(&format!("Median of a block of checks one after the other, in nanoseconds, on {place}:"));
        let mut variants = Vec::new();
        for way in [Way::Incr, Way::Empty, Way::Lean, Way::TwoKeys] {
            let rival = Rival::new(way, Wire::Single(runtime.block_on(servers[0].connect())), servers);
            variants.push(block(bench, runtime, way.name(), rival));
        }
        variants.push(block(bench, runtime, OURS, two_windows(&servers[0].url())));
        let measured = take_turns(bench.settings.goal_rounds.max(3) * 3, variants);
        report.table(&compare(&measured, Way::Incr.name(), "p50 ns"));
        let ratio = Spread::ratio(&find(&measured, OURS).rounds, &find(&measured, Way::Incr.name()).rounds);
        report.goal(Goal::at_most(Row::Latency, format!("p50 on {place}"), 1.15, " × INCR", ratio));
    }
    let checks = 200;
    let decider = Ours::new(&ours::connect(&servers[0].url()), ours::builder().build());
    let before = servers[0].script_calls();
    for number in 0..checks {
        assert!(bench.runtime.block_on(decider.decide(Caller::new(0, number))));
    }
    let calls = (servers[0].script_calls() - before) as f64 / checks as f64;
    let measured = format!("{calls:.2} script calls a check");
    report.goal(Goal::new(Row::Latency, "round trips", "1", measured, (0.99..1.02).contains(&calls)));
}

/// The median of some checks, one after the other.
fn block<'a>(bench: &Bench<'_>, runtime: &'a Runtime, name: &str, decider: impl Decider) -> Variant<'a, f64> {
    let checks = (bench.settings.micro_times / 50).clamp(20, 400);
    Variant::new(name, move || {
        let decider = decider.clone();
        // As a task: what `block_on` itself runs is on another thread than the connection.
        let task = runtime.spawn(async move {
            let mut times = Vec::new();
            for number in 0..checks {
                let start = Instant::now();
                assert!(decider.decide(Caller::new(0, number)).await, "a check was denied");
                times.push(start.elapsed().as_nanos() as f64);
            }
            Spread::of(times).median
        });
        runtime.block_on(task).unwrap()
    })
}
