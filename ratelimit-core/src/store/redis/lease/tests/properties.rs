//! Properties of simulated processes. `LEASE_CASES` sets how many cases each property tries. The random
//! numbers are the same in every run.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::simulation::{Report, SECOND, Scenario};
use crate::policy::{Algorithm, Policy, PolicyBuilder};

/// Runs a property over random cases.
fn for_all<S: Strategy>(
    default_cases: u32,
    strategy: &S,
    property: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let cases =
        std::env::var("LEASE_CASES").map_or(default_cases, |cases| cases.parse().expect("a number of cases"));
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 64, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    runner.run(strategy, property).unwrap_or_else(|error| panic!("{error}"));
}

/// The policies under which leases are tried, of every algorithm that has leases: `max` units a second.
fn policies(key: &'static str, max: u64) -> Vec<Policy> {
    let leasable = Algorithm::ALL.iter().filter(|algorithm| algorithm.spec().is_leasable);
    let shapes = leasable.flat_map(|algorithm| {
        let plain = Policy::builder(key).max(max).window(Duration::from_secs(1)).algorithm(*algorithm);
        [Some(plain), algorithm.has_sub_windows().then(|| plain.sub_windows(10))]
    });
    shapes.flatten().map(PolicyBuilder::build).collect()
}

/// The numbers of these policies.
fn shapes() -> std::ops::Range<usize> {
    0..policies("k", 100).len()
}

/// Loads in percent of the limit: nearly none, some, all and too much.
const NEAR: [u64; 4] = [2, 30, 100, 300];
const BELOW: [u64; 3] = [20, 50, 90];

fn exact(report: &Report) -> Result<(), TestCaseError> {
    prop_assert_eq!((report.over, report.unbalanced), (0, 0), "{}", &report.first_fault);
    Ok(())
}

/// A scenario of any algorithm, limit, load, round trip and drift.
fn scenario() -> impl Strategy<Value = Scenario> {
    let shape = (shapes(), 40u64..900, 1u64..=4, any::<u64>());
    let world = (
        prop::bool::ANY,
        100u64..6_000,
        0u64..=1_000,
        20_000u64..600_000,
        prop_oneof![3 => Just(100u64), 1 => 5u64..400],
    );
    (shape, world).prop_map(
        |((algorithm, max, processes, seed), (near, way, drift, longest_phase, interval))| {
            let policy = policies("global", max)[algorithm].clone();
            let loads = if near { NEAR.to_vec() } else { BELOW.to_vec() };
            let interval = interval * 1_000;
            Scenario {
                loads,
                way: (20, way),
                drift,
                longest_phase,
                interval,
                ..Scenario::new(seed, policy, processes)
            }
        },
    )
}

/// What happens to a scenario beyond plain requests, by a random number.
const CHANGES: [fn(&mut Scenario, u64); 7] = [
    |_, _| {},
    |scenario, n| scenario.crashes = 1 + n % 4,
    |scenario, n| scenario.pauses = Some((10_000 + n % 1_490_000, true)),
    // Several calls are in flight. They overtake each other, and so do their answers.
    |scenario, n| scenario.calls = 2 + n % 7,
    |scenario, n| scenario.largest_cost = 2 + n % 28,
    // Half of the requests are refunded.
    |scenario, _| scenario.undone = 50,
    // An answer with a debt ends leases, also in flight. Another process may use its units despite a debt
    // that it does not know.
    |scenario, n| {
        (scenario.processes, scenario.instances) = (1, 1);
        (scenario.settled, scenario.calls) = (5 + n % 25, 1 + n / 25 % 8);
    },
];

#[test]
fn no_request_too_many_passes() {
    for change in CHANGES {
        for_all(70, &(scenario(), any::<u64>()), |(mut scenario, number)| {
            change(&mut scenario, number);
            exact(&scenario.run())
        });
    }
}

/// Groups of a global limit and one of four other limits, which often denies. Then units are given back, some
/// of them after the end of their window.
#[test]
fn no_request_too_many_passes_in_groups_that_are_denied() {
    let others = (shapes(), 10u64..60, 10u64..100);
    for_all(120, &(scenario(), others, 1u64..6), |(scenario, (other, percent, groups), largest_cost)| {
        let max = (scenario.policies[0].max() * percent / 400).max(4);
        let mut policies_of_all = scenario.policies.clone();
        for key in ["a", "b", "c", "d"] {
            policies_of_all.push(policies(key, max)[other].clone());
        }
        exact(&Scenario { policies: policies_of_all, groups, largest_cost, ..scenario }.run())
    });
}

/// Without the margin this fails: the clocks run at different rates, and the round trips are too short to
/// hide it.
#[test]
fn no_request_too_many_passes_with_clocks_that_run_slow_and_short_round_trips() {
    for_all(15, &(shapes(), any::<u64>()), |(algorithm, seed)| {
        let policy = policies("global", 1_000)[algorithm].clone();
        exact(&Scenario { drift: 1_000, way: (2, 50), ..Scenario::new(seed, policy, 3) }.run())
    });
}

fn sum(reports: impl Iterator<Item = Report>) -> Report {
    reports.fold(Report::default(), |mut sum, report| {
        sum.requests += report.requests;
        sum.admitted += report.admitted;
        sum.calls += report.calls;
        sum.local += report.local;
        sum.leases += report.leases;
        sum.over += report.over;
        sum.unused_at_faults += report.unused_at_faults;
        sum.broken_waits.0 += report.broken_waits.0;
        sum.broken_waits.1 += report.broken_waits.1;
        if sum.first_fault.is_empty() {
            sum.first_fault = report.first_fault;
        }
        sum
    })
}

#[test]
fn after_a_lowered_max_no_lease_of_the_old_one_is_used() {
    for algorithm in 0..3 {
        let run = |seed| {
            let policy = policies("global", 1_000)[algorithm].clone();
            let scenario = Scenario::new(seed, policy, 3);
            Scenario { lower: Some((950_000, 500)), loads: vec![50, 100, 200], ..scenario }.run()
        };
        let report = sum((0..6).map(run));
        assert!(report.leases > 20, "{report:?}");
        assert_eq!(report.over, 0, "{algorithm}: {}", report.first_fault);
    }
}

#[test]
fn after_a_failover_no_more_pass_than_were_unused() {
    for algorithm in 0..3 {
        let run = |seed| {
            let policy = policies("global", 1_000)[algorithm].clone();
            Scenario { failover: Some((1_300_000, 600_000)), ..Scenario::new(seed, policy, 3) }.run()
        };
        let report = sum((0..8).map(run));
        // Unused units are used until the loss of the connection is noticed, within 30 ms.
        assert!(report.leases > 20, "{report:?}");
        assert!(report.over * 4 <= report.unused_at_faults, "{algorithm}: {report:?}");
    }
}

#[test]
fn after_a_step_of_the_servers_clock_no_more_pass_than_were_unused() {
    for by in [-300_000, 30_000, 1_000_000] {
        for algorithm in 0..3 {
            let run = |seed| {
                let policy = policies("global", 1_000)[algorithm].clone();
                let scenario = Scenario { steps: vec![(1_130_000, by)], ..Scenario::new(seed, policy, 3) };
                let plain = Scenario { plain: true, ..scenario.clone() }.run().over;
                let mut report = scenario.run();
                report.over = report.over.saturating_sub(plain);
                report
            };
            let report = sum((0..6).map(run));
            assert!(report.over <= report.unused_at_faults, "{algorithm} {by}: {report:?}");
        }
    }
}

#[test]
fn after_a_pause_that_no_clock_counts_no_more_pass_than_were_unused() {
    for algorithm in 0..3 {
        let run = |seed| {
            let policy = policies("global", 1_000)[algorithm].clone();
            Scenario { pauses: Some((400_000, false)), ..Scenario::new(seed, policy, 3) }.run()
        };
        let report = sum((0..8).map(run));
        assert!(report.over <= report.unused_at_faults, "{algorithm}: {report:?}");
    }
}

/// A denied caller that retries after the wait passes, if no other request comes. Leases that are on their
/// way do not take its units, because they are large enough, and a small part of the units that are left.
#[test]
fn a_retry_after_the_wait_passes() {
    for (largest_cost, load) in [(1, 150), (20, 150)] {
        for algorithm in 0..3 {
            let run = |seed| {
                let policy = policies("global", 2_000)[algorithm].clone();
                Scenario {
                    largest_cost,
                    loads: vec![load],
                    until: 2 * SECOND,
                    ..Scenario::new(seed, policy, 4)
                }
                .run()
            };
            let report = sum((0..2).map(run));
            assert!(report.broken_waits.1 > 10, "{report:?}");
            assert_eq!(report.broken_waits.0, 0, "cost {largest_cost}, {algorithm}: {report:?}");
        }
    }
}

/// Calls per thousand requests of four processes, at nine tenths of the limit.
fn calls_per_request(algorithm: usize, max: u64) -> u64 {
    let run = |seed| {
        let policy = policies("global", max)[algorithm].clone();
        Scenario { loads: vec![90], until: 3 * SECOND, ..Scenario::new(seed, policy, 4) }.run()
    };
    let report = sum((0..4).map(run));
    assert_eq!(report.over, 0);
    report.calls * 1000 / report.requests
}

#[test]
fn below_the_limit_few_requests_take_a_call() {
    for (algorithm, at_5000, at_1000) in [(0, 20, 90), (1, 40, 170)] {
        let calls = [5_000, 1_000].map(|max| calls_per_request(algorithm, max));
        assert!(calls[0] <= at_5000 && calls[1] <= at_1000, "{algorithm}: {calls:?}");
    }
}

/// The loads are steady, all of the limit or three times the limit, or jump between nearly none and three
/// times the limit.
#[test]
fn nearly_as_many_requests_pass_as_without_leases() {
    for algorithm in 0..3 {
        for loads in [vec![100], vec![300], NEAR.to_vec()] {
            let run = |seed, plain| {
                let policy = policies("global", 1_000)[algorithm].clone();
                let (loads, until) = (loads.clone(), 2 * SECOND);
                Scenario { loads, until, plain, ..Scenario::new(seed, policy, 4) }.run()
            };
            let [with, without] = [false, true].map(|plain| sum((0..2).map(|seed| run(seed, plain))));
            let (passed, plain) = (with.admitted, without.admitted);
            assert_eq!(with.over, 0, "{}", with.first_fault);
            assert!(passed * 100 >= plain * 98, "{algorithm} at {loads:?}: {passed} of {plain}");
        }
    }
}
