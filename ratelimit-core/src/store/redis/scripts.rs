//! The script texts: put together from the files in `lua/`, with only the algorithms that a group needs.
//!
//! Redis runs every definition of a script at each call until the script returns. So a script holds only what it needs,
//! and a script for one algorithm, which nearly every call uses, holds that algorithm's step in place of a call to it.

use std::sync::OnceLock;

use redis::Script as Digest;

use crate::algorithm::Algorithm;

/// A script, and the SHA-1 under which Redis knows it.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) text: String,
    pub(super) sha: String,
}

impl Script {
    fn new(text: String) -> Self {
        let sha = Digest::new(&text).get_hash().to_owned();
        Self { text, sha }
    }
}

/// Sets of algorithms, one bit for each.
const SETS: usize = 1 << ALGORITHMS.len();

const ALGORITHMS: [(Algorithm, &str); 4] = [
    (Algorithm::FixedWindow, include_str!("../../../lua/fixed_window.lua")),
    (Algorithm::SlidingWindowCounter, include_str!("../../../lua/sliding_window_counter.lua")),
    (Algorithm::SlidingWindowLog, include_str!("../../../lua/sliding_window_log.lua")),
    (Algorithm::TokenBucket, include_str!("../../../lua/token_bucket.lua")),
];
const PRELUDE: &str = include_str!("../../../lua/prelude.lua");
const MUL_DIV: &str = include_str!("../../../lua/mul_div.lua");
const MILLIS: &str = include_str!("../../../lua/millis.lua");
const CHECK: &str = include_str!("../../../lua/check.lua");
const REQUESTS: &str = include_str!("../../../lua/requests.lua");
const REFUND: &str = include_str!("../../../lua/refund.lua");
const PROBE: &str = include_str!("../../../lua/probe.lua");

/// The line of `check.lua` that stands for the step.
const STEP: &str = "--STEP\n";
/// The line of an algorithm's file behind which only refunds need the text.
const BEFORE_REFUND: &str = "-- refund:\n";
/// The step of the algorithm that a call names. There is none for a log, whose state is no string.
const CALL_STEP: &str = "local step = steps[algorithm]\nif step then\nfits, bytes, ttl = step(value, cost, max, window, shape)\nend\n";

/// The script that judges a group with these algorithms.
pub(super) fn check(algorithms: impl Iterator<Item = Algorithm>) -> &'static Script {
    static SCRIPTS: [OnceLock<Script>; SETS] = [const { OnceLock::new() }; SETS];
    let set = set(algorithms);
    SCRIPTS[set].get_or_init(|| Script::new(check_text(set)))
}

/// The script that gives back what was taken under these algorithms.
pub(super) fn refund(algorithms: impl Iterator<Item = Algorithm>) -> &'static Script {
    static SCRIPTS: [OnceLock<Script>; SETS] = [const { OnceLock::new() }; SETS];
    let set = set(algorithms);
    SCRIPTS[set].get_or_init(|| Script::new(refund_text(set)))
}

/// The script that proves that all others would work.
pub(super) fn probe() -> &'static Script {
    static SCRIPT: OnceLock<Script> = OnceLock::new();
    SCRIPT.get_or_init(|| Script::new(PROBE.to_owned()))
}

/// The number by which ARGV names an algorithm.
pub(super) const fn number(algorithm: Algorithm) -> u8 {
    match algorithm {
        Algorithm::FixedWindow => 1,
        Algorithm::SlidingWindowCounter => 2,
        Algorithm::SlidingWindowLog => 3,
        Algorithm::TokenBucket => 4,
    }
}

/// The bit that stands for an algorithm in a set of them.
const fn bit(algorithm: Algorithm) -> usize {
    1 << (number(algorithm) - 1)
}

fn set(algorithms: impl Iterator<Item = Algorithm>) -> usize {
    algorithms.fold(0, |set, algorithm| set | bit(algorithm))
}

/// The algorithms of a set whose states are strings, and their texts.
fn steps(set: usize) -> impl Iterator<Item = (Algorithm, &'static str)> {
    let is_step = move |of: &(Algorithm, &str)| set & bit(of.0) != 0 && of.0 != Algorithm::SlidingWindowLog;
    ALGORITHMS.into_iter().filter(is_step)
}

/// The text of an algorithm's file without and with its refund.
fn without_refund(text: &'static str) -> &'static str {
    text.split_once(BEFORE_REFUND).map_or(text, |(step, _)| step)
}

/// The functions of the steps, by the numbers that ARGV uses.
fn define_steps(set: usize) -> String {
    let mut text = String::from("local steps = {}\n");
    for (algorithm, step) in steps(set) {
        let (number, step) = (number(algorithm), without_refund(step));
        text +=
            &format!("steps[{number}] = function(value, cost, max, window, shape)\nlocal fits, bytes, ttl\n");
        text += &format!("{step}return fits, bytes, ttl\nend\n");
    }
    text
}

/// The functions about logs, or nothing where a script has none.
fn define_log(set: usize, part: fn(&'static str) -> &'static str) -> &'static str {
    let log = ALGORITHMS.iter().find(|(algorithm, _)| *algorithm == Algorithm::SlidingWindowLog);
    match log {
        Some((algorithm, text)) if set & bit(*algorithm) != 0 => part(text),
        _ => "local log\n",
    }
}

fn mul_div(set: usize) -> &'static str {
    let needs_it = set & (bit(Algorithm::SlidingWindowCounter) | bit(Algorithm::TokenBucket)) != 0;
    if needs_it { MUL_DIV } else { "" }
}

fn check_text(set: usize) -> String {
    let mut text = [PRELUDE, mul_div(set)].concat();
    let functions = define_steps(set);
    match steps(set).collect::<Vec<_>>()[..] {
        [] => text = [&text, "local stored, args, left\n", &functions].concat(),
        [(algorithm, step)] if set == bit(algorithm) => {
            text += &CHECK.replace(STEP, without_refund(step));
            text += &functions;
        }
        _ => {
            text += &functions;
            text += &CHECK.replace(STEP, CALL_STEP);
        }
    }
    text + MILLIS + define_log(set, without_refund) + REQUESTS
}

fn refund_text(set: usize) -> String {
    let refunds = steps(set).filter_map(|(_, text)| text.split_once(BEFORE_REFUND)).map(|(_, refund)| refund);
    let mut text = [PRELUDE, mul_div(set), &define_steps(set), "local refunds = {}\n"].concat();
    text.extend(refunds);
    text + MILLIS + define_log(set, |text| text) + REFUND
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands that a script calls.
    fn commands(text: &str) -> Vec<&str> {
        text.split("call('").skip(1).filter_map(|rest| rest.split('\'').next()).collect()
    }

    #[test]
    fn the_probe_tries_every_command_that_the_scripts_call() {
        let texts = ALGORITHMS
            .iter()
            .map(|(_, text)| *text)
            .chain([PRELUDE, MUL_DIV, MILLIS, CHECK, REQUESTS, REFUND]);
        let mut needed: Vec<&str> = texts.flat_map(commands).collect();
        needed.extend(["UNLINK", "TIME"]);
        assert!(needed.contains(&"SET") && needed.contains(&"HSET"), "{needed:?}");
        for command in needed {
            assert!(PROBE.contains(&format!("try('{command}'")), "{command}");
        }
    }

    /// The texts with their marks replaced, for every set.
    #[test]
    fn every_text_has_its_parts_in_place() {
        assert_eq!(CHECK.matches(STEP).count(), 1);
        for (algorithm, text) in ALGORITHMS {
            assert_eq!(text.matches(BEFORE_REFUND).count(), 1, "{algorithm}");
        }
        for set in 1..SETS {
            assert!(!check_text(set).contains(STEP.trim()), "{set}");
            assert!(check_text(set).contains("local log") && refund_text(set).contains("local log"), "{set}");
        }
    }
}
