//! How often the cheaper algorithms decide otherwise than the exact log, over simulated days of requests.
//!
//! ```text
//! cargo run --release -p tests --example accuracy
//! ```
//!
//! Prints Markdown; `docs/accuracy.md` explains it. Whole numbers only and a fixed seed, so every run prints
//! the same.

mod traffic;

use std::collections::VecDeque;
use std::time::Duration;

use ratelimit_core::store::toolkit::{Operation, State};
use ratelimit_core::{Algorithm, Policy, PolicyBuilder, Timestamp};

use traffic::{MIXES, Mix, requests};

const CALLERS: u64 = 10_000;
const MAX: u64 = 100;
const WINDOW: Duration = Duration::from_secs(60);

/// An algorithm under comparison.
struct Candidate {
    name: &'static str,
    policy: Policy,
    tally: Tally,
}

#[derive(Default)]
struct Tally {
    /// Passed where the log denied, or the other way round.
    otherwise: u64,
    /// The most that passed in any window.
    most: usize,
}

/// One caller's state of one candidate.
struct Counts {
    state: State,
    /// When what passed within the last window did.
    passed: VecDeque<u64>,
}

fn candidate(name: &'static str, builder: PolicyBuilder) -> Candidate {
    Candidate { name, policy: builder.window(WINDOW).max(MAX).build(), tally: Tally::default() }
}

fn candidates() -> Vec<Candidate> {
    let counter = Policy::builder("accuracy").algorithm(Algorithm::SlidingWindowCounter);
    vec![
        candidate("sliding window counter, S = 1", counter),
        candidate("sliding window counter, S = 6", counter.sub_windows(6)),
        candidate("sliding window counter, S = 10", counter.sub_windows(10)),
        candidate("sliding window counter, S = 60", counter.sub_windows(60)),
        candidate("fixed window", Policy::builder("accuracy").algorithm(Algorithm::FixedWindow)),
    ]
}

fn passes(policy: &Policy, state: &mut State, now: Timestamp) -> bool {
    state.decide(policy, 1, now, Operation::Check).is_allowed()
}

/// What all requests of a mix come to.
#[derive(Default)]
struct Totals {
    requests: u64,
    denied: u64,
    /// Callers that the log denied at least once.
    limited: u64,
}

fn simulate(mix: &Mix, candidates: &mut [Candidate]) -> Totals {
    let log =
        Policy::builder("accuracy").algorithm(Algorithm::SlidingWindowLog).max(MAX).window(WINDOW).build();
    let window = u64::try_from(WINDOW.as_micros()).unwrap_or(u64::MAX);
    let mut totals = Totals::default();
    for caller in 0..CALLERS {
        let mut exact = State::new(&log);
        let mut counts: Vec<Counts> = candidates
            .iter()
            .map(|c| Counts { state: State::new(&c.policy), passed: VecDeque::new() })
            .collect();
        let denied_before = totals.denied;
        for now in requests(mix, caller) {
            let is_right = passes(&log, &mut exact, now);
            totals.requests += 1;
            totals.denied += u64::from(!is_right);
            for (Candidate { policy, tally, .. }, Counts { state, passed }) in
                candidates.iter_mut().zip(&mut counts)
            {
                let own = passes(policy, state, now);
                if own {
                    let begin = now.as_micros() - window;
                    passed.push_back(now.as_micros());
                    while passed.front().is_some_and(|at| *at < begin) {
                        passed.pop_front();
                    }
                    tally.most = tally.most.max(passed.len());
                }
                tally.otherwise += u64::from(own != is_right);
            }
        }
        totals.limited += u64::from(totals.denied > denied_before);
    }
    totals
}

/// A share in percent, with four decimals, rounded to the nearest.
fn percent(part: u64, whole: u64) -> String {
    let hundredths = (u128::from(part) * 2_000_000).div_ceil(u128::from(whole)) / 2;
    format!("{}.{:04} %", hundredths / 10_000, hundredths % 10_000)
}

fn main() {
    for mix in MIXES {
        let mut candidates = candidates();
        let Totals { requests, denied, limited } = simulate(mix, &mut candidates);
        assert!(requests >= 10_000_000, "too little traffic: {requests}");
        println!("### {}\n", mix.name);
        println!(
            "{requests} requests from {CALLERS} callers; the log denies {} of them, to {limited} callers.\n",
            percent(denied, requests)
        );
        println!("| algorithm | decided otherwise | most in any window |");
        println!("|---|---|---|");
        for Candidate { name, tally, .. } in candidates {
            println!("| {name} | {} | {} |", percent(tally.otherwise, requests), tally.most);
        }
        println!();
    }
}
