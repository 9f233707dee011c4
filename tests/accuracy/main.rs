//! How often the cheaper algorithms decide otherwise than the exact log, over simulated days of requests.
//!
//! ```text
//! cargo run --release -p tests --bin accuracy
//! ```
//!
//! Prints Markdown; `docs/accuracy.md` explains it. Whole numbers only and a fixed seed, so every run prints
//! the same.

mod traffic;

use std::collections::VecDeque;
use std::time::Duration;

use ratelimit_core::policy::MAX_UNITS;
use ratelimit_core::store::toolkit::{Operation, State};
use ratelimit_core::{Algorithm, Outcome, Policy, PolicyBuilder, Timestamp};

use traffic::{MIXES, Mix, requests};

const CALLERS: u64 = 10_000;
const MAX: u64 = 100;
const WINDOW: Duration = Duration::from_secs(60);

/// One more digit than is printed of an average of ratios.
const BILLION: u64 = 1_000_000_000;

/// An algorithm under comparison.
struct Candidate {
    name: &'static str,
    policy: Policy,
    /// Counts the same without ever denying, so that it can be given any history.
    unlimited: Policy,
    tally: Tally,
}

#[derive(Default)]
struct Tally {
    /// Passed on its own counts where the log on its own denied, and the other way round.
    wrongly_passed: u64,
    wrongly_denied: u64,
    /// Callers that it denied at least once, and the log never.
    wronged: u64,
    /// The most that passed in any window.
    most: usize,
    /// Decided otherwise than the log when it is given the history of the log.
    same_history: u64,
    /// Sum over all requests of the difference between estimated and true rate, in billionths of the true
    /// rate.
    difference: u64,
}

/// One caller's state of one candidate.
struct Counts {
    own: State,
    same: State,
    /// When what passed on its own counts within the last window did.
    passed: VecDeque<u64>,
    denied: bool,
}

fn candidate(name: &'static str, builder: PolicyBuilder) -> Candidate {
    let builder = builder.window(WINDOW);
    let (policy, unlimited) = (builder.max(MAX).build(), builder.max(MAX_UNITS).build());
    Candidate { name, policy, unlimited, tally: Tally::default() }
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

fn decide_one(policy: &Policy, state: &mut State, now: Timestamp, operation: Operation) -> Outcome {
    state.decide(policy, 1, now, operation)
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
            .map(|c| Counts {
                own: State::new(&c.policy),
                same: State::new(&c.unlimited),
                passed: VecDeque::new(),
                denied: false,
            })
            .collect();
        let denied_before = totals.denied;
        for now in requests(mix, caller) {
            let outcome = decide_one(&log, &mut exact, now, Operation::Check);
            let passes = outcome.is_allowed();
            // Units in the window, this request's included.
            let rate = MAX - outcome.remaining() + u64::from(!passes);
            totals.requests += 1;
            totals.denied += u64::from(!passes);
            for (Candidate { policy, unlimited, tally, .. }, Counts { own, same, passed, denied }) in
                candidates.iter_mut().zip(&mut counts)
            {
                let own = decide_one(policy, own, now, Operation::Check).is_allowed();
                if own {
                    let begin = now.as_micros() - window;
                    passed.push_back(now.as_micros());
                    while passed.front().is_some_and(|at| *at < begin) {
                        passed.pop_front();
                    }
                    tally.most = tally.most.max(passed.len());
                }
                *denied |= !own;
                tally.wrongly_passed += u64::from(own && !passes);
                tally.wrongly_denied += u64::from(!own && passes);
                let operation = if passes { Operation::Check } else { Operation::Peek };
                let estimate =
                    MAX_UNITS - decide_one(unlimited, same, now, operation).remaining() + u64::from(!passes);
                tally.same_history += u64::from((estimate <= MAX) != passes);
                tally.difference += estimate.abs_diff(rate) * BILLION / rate;
            }
        }
        let limited = totals.denied > denied_before;
        totals.limited += u64::from(limited);
        for (Candidate { tally, .. }, Counts { denied, .. }) in candidates.iter_mut().zip(counts) {
            tally.wronged += u64::from(denied && !limited);
        }
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
        println!(
            "| algorithm | decided otherwise | wrongly passed | wrongly denied | callers wronged | most in any window | \
             otherwise on the log's history | rate off by |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        for Candidate { name, tally, .. } in candidates {
            let Tally { wrongly_passed, wrongly_denied, wronged, most, same_history, difference } = tally;
            println!(
                "| {name} | {} | {} | {} | {wronged} | {most} | {} | {} |",
                percent(wrongly_passed + wrongly_denied, requests),
                percent(wrongly_passed, requests),
                percent(wrongly_denied, requests),
                percent(same_history, requests),
                percent(difference / requests, BILLION)
            );
        }
        println!();
    }
}
