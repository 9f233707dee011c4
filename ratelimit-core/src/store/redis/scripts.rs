//! The script texts: put together from the files in `lua/`, with only the algorithms that a group needs.
//!
//! A group of one algorithm, which is nearly every group, runs a script that holds only that one, since Redis runs
//! through every definition at each call.

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

/// Text of each algorithm, and whether it divides.
const ALGORITHMS: [(Algorithm, &str, bool); 4] = [
    (Algorithm::FixedWindow, include_str!("../../../lua/fixed_window.lua"), false),
    (Algorithm::SlidingWindowCounter, include_str!("../../../lua/sliding_window_counter.lua"), true),
    (Algorithm::SlidingWindowLog, include_str!("../../../lua/sliding_window_log.lua"), false),
    (Algorithm::TokenBucket, include_str!("../../../lua/token_bucket.lua"), true),
];
const PRELUDE: &str = include_str!("../../../lua/lib/prelude.lua");
const MUL_DIV: &str = include_str!("../../../lua/lib/mul_div.lua");
const CHECK: &str = include_str!("../../../lua/check.lua");
const REFUND: &str = include_str!("../../../lua/refund.lua");
const PROBE: &str = include_str!("../../../lua/probe.lua");

/// The script that judges a group with these algorithms.
pub(super) fn check(algorithms: impl Iterator<Item = Algorithm>) -> &'static Script {
    static SCRIPTS: [OnceLock<Script>; SETS] = [const { OnceLock::new() }; SETS];
    script(&SCRIPTS, algorithms, CHECK)
}

/// The script that gives back what was taken under these algorithms.
pub(super) fn refund(algorithms: impl Iterator<Item = Algorithm>) -> &'static Script {
    static SCRIPTS: [OnceLock<Script>; SETS] = [const { OnceLock::new() }; SETS];
    script(&SCRIPTS, algorithms, REFUND)
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

fn script(
    scripts: &'static [OnceLock<Script>; SETS],
    algorithms: impl Iterator<Item = Algorithm>,
    main: &str,
) -> &'static Script {
    let set = algorithms.fold(0, |set, algorithm| set | bit(algorithm));
    scripts[set].get_or_init(|| {
        let chosen = || ALGORITHMS.iter().filter(|(algorithm, ..)| set & bit(*algorithm) != 0);
        let mut text = String::from(PRELUDE);
        text.push_str(if chosen().any(|(_, _, divides)| *divides) { MUL_DIV } else { "" });
        text.extend(chosen().map(|(_, text, _)| *text));
        text.push_str(main);
        Script::new(text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands that a script calls.
    fn commands(text: &str) -> Vec<&str> {
        let calls = text.split("redis.call('").skip(1).chain(text.split("redis.pcall('").skip(1));
        calls.filter_map(|rest| rest.split('\'').next()).collect()
    }

    #[test]
    fn the_proof_tries_every_command_that_is_needed() {
        let texts = ALGORITHMS.iter().map(|(_, text, _)| *text).chain([PRELUDE, MUL_DIV, CHECK, REFUND]);
        let mut needed: Vec<&str> = texts.flat_map(commands).collect();
        needed.extend(["DEL", "TIME"]);
        assert!(needed.contains(&"SET") && needed.contains(&"RPUSH"), "{needed:?}");
        for command in needed {
            assert!(PROBE.contains(&format!("try('{command}'")), "{command}");
        }
    }
}
