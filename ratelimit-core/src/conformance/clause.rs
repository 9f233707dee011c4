//! What a failure says: the clause of the contract, the algorithm, what was expected and what was found.

use std::fmt::Debug;

use crate::check::Check;
use crate::outcome::GroupOutcome;
use crate::policy::Algorithm;

/// A clause of the contract of [`Store`](crate::store::Store), as one case tests it.
#[derive(Clone, Copy)]
pub(super) struct Clause {
    text: &'static str,
    algorithm: Option<Algorithm>,
}

pub(super) const ATOMIC: Clause = Clause::new("contract 1, atomic");
pub(super) const ALL_OR_NOTHING: Clause = Clause::new("contract 2, all or nothing");
pub(super) const EQUAL: Clause = Clause::new("contract 3, equal to `decide_with`");
pub(super) const ONE_CLOCK: Clause = Clause::new("contract 4, one clock");
pub(super) const DENIAL: Clause = Clause::new("contract 5, a denial is an outcome");
pub(super) const BOUNDED: Clause = Clause::new("contract 6, bounded");

impl Clause {
    const fn new(text: &'static str) -> Self {
        Self { text, algorithm: None }
    }

    /// The clause for one algorithm.
    pub(super) const fn of(self, algorithm: Algorithm) -> Self {
        Self { algorithm: Some(algorithm), ..self }
    }

    #[track_caller]
    fn fail(self, message: &str) -> ! {
        match self.algorithm {
            Some(algorithm) => panic!("{}; {algorithm}: {message}", self.text),
            None => panic!("{}: {message}", self.text),
        }
    }

    /// `what` must be `expected`.
    #[track_caller]
    pub(super) fn equal<T: Copy + PartialEq + Debug>(self, what: &str, found: T, expected: T) {
        if found != expected {
            self.fail(&format!("{what}: expected {expected:?}, found {found:?}"));
        }
    }

    /// The group must be admitted; `which` names the request.
    #[track_caller]
    pub(super) fn admitted(self, which: &str, outcome: &GroupOutcome) {
        if !outcome.is_allowed() {
            self.fail(&format!("{which}: expected an admission, found {outcome:?}"));
        }
    }

    /// The group must be denied; `which` names the request.
    #[track_caller]
    pub(super) fn denied(self, which: &str, outcome: &GroupOutcome) {
        if outcome.is_allowed() {
            self.fail(&format!("{which}: expected a denial, found {outcome:?}"));
        }
    }

    /// So much must remain of one limit of the group.
    #[track_caller]
    pub(super) fn remaining(self, when: &str, outcome: &GroupOutcome, limit: usize, expected: u64) {
        match outcome.outcomes().get(limit) {
            Some(found) => self.equal(&format!("remaining {when}"), found.remaining(), expected),
            None => self.fail(&format!("limit {limit} of a group has no outcome: {outcome:?}")),
        }
    }

    /// Both outcomes of the group must be the same. Shows the first limit whose outcomes differ.
    #[track_caller]
    pub(super) fn same(
        self,
        which: &str,
        group: &[Check<'_>],
        found: &GroupOutcome,
        expected: &GroupOutcome,
    ) {
        if found == expected {
            return;
        }
        ONE_CLOCK.equal(&format!("instant of {which}, by the clock of the suite"), found.at(), expected.at());
        self.equal(&format!("number of outcomes of {which}"), found.outcomes().len(), group.len());
        let mut limits = group.iter().zip(found.outcomes().iter().zip(expected.outcomes()));
        if let Some((check, (found, expected))) = limits.find(|(_, (found, expected))| found != expected) {
            let policy = check.policy();
            let shape = (policy.max(), policy.sub_windows(), policy.capacity(), policy.block());
            self.of(policy.algorithm()).fail(&format!(
                "{which}: caller {:?}, cost {}, (max, sub_windows, capacity, block) = {shape:?}:\n expected {expected:?}\n    found {found:?}",
                check.partition(),
                check.cost(),
            ));
        }
        self.equal(&format!("whether {which} is admitted"), found.is_allowed(), expected.is_allowed());
        self.fail(&format!("{which}: expected {expected:?}, found {found:?}"));
    }
}
