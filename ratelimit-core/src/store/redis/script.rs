//! Scripts, assembled from the files in `lua/` with only the algorithms that a call needs.
//!
//! Redis executes every definition at each call until the script returns. So a script contains only what it
//! needs. A script for one algorithm, which nearly every call uses, contains the algorithm's step in place of
//! a call of a function.

use std::sync::OnceLock;

use redis::Script as Digest;

use crate::policy::{Algorithm, LuaSource};

/// A script, and the SHA-1 by which EVALSHA calls it.
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

/// Number of sets of algorithms, one bit per algorithm.
const SETS: usize = 1 << Algorithm::EVERY.len();

const PRELUDE: &str = include_str!("../../../lua/prelude.lua");
const MUL_DIV: &str = include_str!("../../../lua/mul_div.lua");
const MILLIS: &str = include_str!("../../../lua/millis.lua");
const CHECK: &str = include_str!("../../../lua/check.lua");
/// The step of a log, in front of [its functions](LuaSource::Log).
const LOG_STEP: &str = include_str!("../../../lua/log_step.lua");
/// The part after the early return of `check.lua`: judges the requests that are left one by one.
const REQUESTS: &str = concat!(
    include_str!("../../../lua/open.lua"),
    include_str!("../../../lua/judge.lua"),
    include_str!("../../../lua/overdraw.lua"),
    include_str!("../../../lua/all.lua"),
);
const REFUND: &str = include_str!("../../../lua/refund.lua");
const PROBE: &str = include_str!("../../../lua/probe.lua");

/// The line of `check.lua` that the step replaces.
const STEP: &str = "--STEP\n";
/// The line of an algorithm's file after which only refunds need the text.
const REFUND_PART: &str = "-- refund:\n";
/// The step in a script for several algorithms: calls the function of the algorithm. There is none for a log.
const CALL_STEP: &str = "local step = steps[algorithm]
if step then
fits, bytes, ttl = step(value, cost, max, window, shape)
";

/// The script that decides requests with these algorithms.
pub(super) fn check(algorithms: impl Iterator<Item = Algorithm>) -> &'static Script {
    static SCRIPTS: [OnceLock<Script>; SETS] = [const { OnceLock::new() }; SETS];
    let set = set_of(algorithms);
    SCRIPTS[set].get_or_init(|| Script::new(check_text(set)))
}

/// The script that refunds charges under these algorithms.
pub(super) fn refund(algorithms: impl Iterator<Item = Algorithm>) -> &'static Script {
    static SCRIPTS: [OnceLock<Script>; SETS] = [const { OnceLock::new() }; SETS];
    let set = set_of(algorithms);
    SCRIPTS[set].get_or_init(|| Script::new(refund_text(set)))
}

/// The script that verifies a connection: it calls every command that the others call.
pub(super) fn probe() -> &'static Script {
    static SCRIPT: OnceLock<Script> = OnceLock::new();
    SCRIPT.get_or_init(|| Script::new(PROBE.to_owned()))
}

/// The bit of an algorithm in a set.
const fn bit(algorithm: Algorithm) -> usize {
    1 << (algorithm.spec().number - 1)
}

fn set_of(algorithms: impl Iterator<Item = Algorithm>) -> usize {
    algorithms.fold(0, |set, algorithm| set | bit(algorithm))
}

/// The algorithms of a set whose states are strings, with their numbers and files.
fn steps_of(set: usize) -> impl Iterator<Item = (u8, &'static str)> {
    let members = Algorithm::EVERY.iter().filter(move |algorithm| set & bit(**algorithm) != 0);
    members.filter_map(|algorithm| match algorithm.spec().lua {
        LuaSource::Step(text) | LuaSource::Entries(text) => Some((algorithm.spec().number, text)),
        LuaSource::Log(_) => None,
    })
}

/// The file about logs, if the set has them.
fn log_of(set: usize) -> Option<&'static str> {
    let mut members = Algorithm::EVERY.iter().filter(|algorithm| set & bit(**algorithm) != 0);
    members.find_map(|algorithm| match algorithm.spec().lua {
        LuaSource::Log(text) => Some(text),
        LuaSource::Step(_) | LuaSource::Entries(_) => None,
    })
}

/// An algorithm's file without its refund, and the refund.
fn split_refund(text: &'static str) -> (&'static str, &'static str) {
    text.split_once(REFUND_PART).unwrap_or((text, ""))
}

/// The functions of the steps, by the numbers that ARGV uses.
fn define_steps(set: usize) -> String {
    let mut text = String::from("local steps = {}\n");
    for (number, file) in steps_of(set) {
        let head = format!(
            "steps[{number}] = function(value, cost, max, window, shape, key, seen)\nlocal fits, bytes, ttl\n"
        );
        text.extend([&head, split_refund(file).0, "return fits, bytes, ttl\nend\n"]);
    }
    text
}

fn mul_div(set: usize) -> &'static str {
    if steps_of(set).any(|(_, text)| text.contains("mul_div(")) { MUL_DIV } else { "" }
}

/// The text for a set: `check.lua` with the steps, and after its early return what only the requests that are
/// left need.
fn check_text(set: usize) -> String {
    let functions = define_steps(set);
    let log = log_of(set).map_or("local log\n", |text| split_refund(text).0);
    let mut steps = steps_of(set);
    let check = match (steps.next(), steps.next(), log_of(set)) {
        (None, ..) => CHECK.replace(STEP, LOG_STEP) + &functions,
        (Some((_, step)), None, None) => CHECK.replace(STEP, split_refund(step).0) + &functions,
        (_, _, None) => functions + &CHECK.replace(STEP, &[CALL_STEP, "end\n"].concat()),
        _ => functions + &CHECK.replace(STEP, &[CALL_STEP, "else\n", LOG_STEP, "end\n"].concat()),
    };
    let only_logs = format!("local only_logs = {}\n", steps_of(set).next().is_none());
    [PRELUDE, mul_div(set), &only_logs, &check, MILLIS, log, REQUESTS].concat()
}

fn refund_text(set: usize) -> String {
    let refunds: String = steps_of(set).map(|(_, text)| split_refund(text).1).collect();
    let tables = "local refunds, maxima = {}, {}\n";
    let log = log_of(set).unwrap_or("local log\n");
    [PRELUDE, mul_div(set), &define_steps(set), tables, &refunds, MILLIS, log, REFUND].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands that a script calls.
    fn commands(text: &str) -> Vec<&str> {
        text.split("call('").skip(1).filter_map(|rest| rest.split('\'').next()).collect()
    }

    #[test]
    fn the_probe_calls_every_command_that_is_needed() {
        let all = SETS - 1;
        let texts = [check_text(all), refund_text(all)];
        let mut needed: Vec<&str> = texts.iter().flat_map(|text| commands(text)).collect();
        needed.extend(["UNLINK", "TIME"]);
        assert!(needed.contains(&"SET") && needed.contains(&"HSET"), "{needed:?}");
        for command in needed {
            assert!(PROBE.contains(&format!("try('{command}'")), "{command}");
        }
    }

    #[test]
    fn a_text_has_the_steps_of_its_set_once_and_no_others() {
        for set in 1..SETS {
            let (check, refund) = (check_text(set), refund_text(set));
            assert!(!check.contains(STEP) && !check.contains(REFUND_PART), "{set}");
            let (step, tree) = (check.find(LOG_STEP), check.find("\nlocal log = {}"));
            assert!(
                step.is_some() == tree.is_some() && step <= tree,
                "a log's step is in front of its tree: {set}"
            );
            for algorithm in Algorithm::EVERY {
                let spec = algorithm.spec();
                let (LuaSource::Step(file) | LuaSource::Entries(file) | LuaSource::Log(file)) = spec.lua;
                let first = file.lines().next().expect("a file has a first line");
                let is_inline = steps_of(set).count() == 1 && log_of(set).is_none();
                let expected = match (set & bit(*algorithm) != 0, is_inline) {
                    (false, _) => 0,
                    (true, false) => 1,
                    (true, true) => 2, // in the loop, and as a function
                };
                assert_eq!(check.matches(first).count(), expected, "{algorithm} in {set}");
                assert_eq!(refund.matches(first).count(), expected.min(1), "{algorithm} in {set}");
                assert_eq!(file.matches(REFUND_PART).count(), 1, "{algorithm}");
                let is_named = file.contains(&format!("\nrefunds[{}] = ", spec.number));
                assert_eq!(is_named, !matches!(spec.lua, LuaSource::Log(_)), "the number of {algorithm}");
            }
        }
    }
}
