//! What the decision functions of the stores answer to the traffic of the pictures.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::Duration;

use ratelimit_core::store::toolkit::{Operation, State};
use ratelimit_core::{Algorithm, Policy, PolicyBuilder, Timestamp};

use crate::traffic::{LENGTH, START, requests};

pub(crate) const MAX: u64 = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// Milliseconds between two points of a curve.
const STEP: u64 = 500;

/// The traffic under one policy. Times are milliseconds after the start.
#[derive(Debug)]
pub(crate) struct Run {
    /// Of the picture.
    pub(crate) name: String,
    /// The arguments of the attribute.
    pub(crate) arguments: String,
    /// Of each request, whether it passed.
    pub(crate) requests: Vec<(u64, bool)>,
    /// Units left.
    pub(crate) left: Vec<(u64, u64)>,
    /// Requests that passed within the last 60 s, both ends included.
    pub(crate) in_window: Vec<(u64, u64)>,
}

impl Run {
    fn new(name: &str, arguments: &str, builder: PolicyBuilder) -> Self {
        let policy = builder.max(MAX).window(WINDOW).build();
        let mut run = Self {
            name: name.to_owned(),
            arguments: format!("max = {MAX}, window = \"60s\", {arguments}"),
            requests: Vec::new(),
            left: Vec::new(),
            in_window: Vec::new(),
        };
        let mut state = State::new(&policy);
        let mut recent = VecDeque::new();
        let mut coming = requests().peekable();
        for step in 0..=LENGTH / STEP {
            let now = step * STEP;
            run.look(&state, &policy, &mut recent, now);
            while let Some(at) = coming.next_if(|at| *at < now + STEP) {
                run.look(&state, &policy, &mut recent, at);
                let passed = state.decide(&policy, 1, instant(at), Operation::Check).is_allowed();
                if passed {
                    recent.push_back(at);
                }
                run.requests.push((at, passed));
                run.look(&state, &policy, &mut recent, at);
            }
        }
        run
    }

    /// Adds a point to each curve.
    fn look(&mut self, state: &State, policy: &Policy, recent: &mut VecDeque<u64>, now: u64) {
        let left = state.clone().decide(policy, 1, instant(now), Operation::Peek).remaining();
        self.left.push((now, left));
        while recent.front().is_some_and(|at| at + 60_000 < now) {
            recent.pop_front();
        }
        self.in_window.push((now, recent.len() as u64));
    }

    pub(crate) fn passed(&self) -> usize {
        self.requests.iter().filter(|(_, passed)| *passed).count()
    }

    /// The most requests that passed in any 60 s.
    pub(crate) fn most(&self) -> u64 {
        self.in_window.iter().map(|(_, count)| *count).max().unwrap_or(0)
    }
}

fn instant(millis: u64) -> Timestamp {
    Timestamp::from_micros(START + millis * 1_000)
}

/// Every algorithm, the counter also with six sub-windows, and a block.
pub(crate) fn all() -> Vec<Run> {
    let builder = |algorithm| Policy::builder("picture").algorithm(algorithm);
    let mut runs = Vec::new();
    for &algorithm in Algorithm::ALL {
        let arguments = format!("algorithm = \"{algorithm}\"");
        runs.push(Run::new(algorithm.as_str(), &arguments, builder(algorithm)));
        let finer = builder(algorithm).sub_windows(6);
        if finer.try_build().is_ok() {
            let name = format!("{algorithm}-6");
            runs.push(Run::new(&name, &format!("{arguments}, sub_windows = 6"), finer));
        }
    }
    let block = builder(Algorithm::SlidingWindowCounter).block(Duration::from_secs(90));
    runs.push(Run::new("block", "block = \"90s\"", block));
    runs
}

/// The results as a table of a page.
pub(crate) fn table(runs: &[Run]) -> String {
    let mut table = "| limit | requests that pass | most in any 60 s |\n|---|---|---|\n".to_owned();
    for run in runs {
        let (passed, all) = (run.passed(), run.requests.len());
        _ = writeln!(table, "| `{}` | {passed} of {all} | {} |", run.arguments, run.most());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_run_admits_more_than_its_rule() {
        for run in all() {
            let most = match run.name.as_str() {
                // Worst cases of the rules: see the tables of the page.
                "fixed_window" | "token_bucket" => 2 * MAX,
                "sliding_window_log" => MAX,
                _ => 2 * MAX - 1,
            };
            assert!(run.most() <= most, "{}: {}", run.name, run.most());
            assert!(run.passed() < run.requests.len(), "{} denies nothing", run.name);
        }
    }
}
