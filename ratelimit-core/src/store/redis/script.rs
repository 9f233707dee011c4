//! Scripts, put together from the files in `lua/` with only the algorithms that a group needs.
//!
//! Nearly every group has one algorithm, and its script holds no other: Redis executes every definition at each call, until
//! the script returns.

use std::sync::OnceLock;

use redis::Script as Digest;

use crate::policy::Algorithm;

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
const SETS: usize = 1 << Algorithm::ALL.len();

const PRELUDE: &str = include_str!("../../../lua/lib/prelude.lua");
const MUL_DIV: &str = include_str!("../../../lua/lib/mul_div.lua");
const VALUES: &str = include_str!("../../../lua/lib/values.lua");
const QUICK_CHECK: &str = include_str!("../../../lua/quick/check.lua");
const CHECK: &str = include_str!("../../../lua/check.lua");
const REFUND: &str = include_str!("../../../lua/refund.lua");
const PROBE: &str = include_str!("../../../lua/probe.lua");

/// The script that decides requests with these algorithms.
pub(super) fn check(algorithms: impl Iterator<Item = Algorithm>) -> &'static Script {
    static SCRIPTS: [OnceLock<Script>; SETS] = [const { OnceLock::new() }; SETS];
    script(&SCRIPTS, algorithms, true, CHECK)
}

/// The script that refunds charges under these algorithms.
pub(super) fn refund(algorithms: impl Iterator<Item = Algorithm>) -> &'static Script {
    static SCRIPTS: [OnceLock<Script>; SETS] = [const { OnceLock::new() }; SETS];
    script(&SCRIPTS, algorithms, false, REFUND)
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

fn script(
    scripts: &'static [OnceLock<Script>; SETS],
    algorithms: impl Iterator<Item = Algorithm>,
    is_check: bool,
    main: &str,
) -> &'static Script {
    let set = algorithms.fold(0, |set, algorithm| set | bit(algorithm));
    scripts[set].get_or_init(|| {
        let chosen = || {
            let chosen = Algorithm::ALL.iter().filter(|algorithm| set & bit(**algorithm) != 0);
            chosen.map(|algorithm| &algorithm.spec().lua)
        };
        let mut text = [PRELUDE, MUL_DIV].concat();
        text.extend(chosen().map(|lua| lua.shared));
        if is_check {
            text.extend(chosen().map(|lua| lua.quick));
            text.push_str(QUICK_CHECK);
        }
        text.push_str(VALUES);
        text.extend(chosen().map(|lua| lua.steps));
        text.push_str(main);
        Script::new(text)
    })
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
        let sources = Algorithm::ALL.iter().map(|algorithm| &algorithm.spec().lua);
        let sources = sources.flat_map(|lua| [lua.shared, lua.quick, lua.steps]);
        let sources = sources.chain([PRELUDE, MUL_DIV, VALUES, QUICK_CHECK, CHECK, REFUND]);
        let mut needed: Vec<&str> = sources.flat_map(commands).collect();
        needed.extend(["UNLINK", "TIME"]);
        assert!(needed.contains(&"SET") && needed.contains(&"HSET"), "{needed:?}");
        for command in needed {
            assert!(PROBE.contains(&format!("try('{command}'")), "{command}");
        }
    }
}
