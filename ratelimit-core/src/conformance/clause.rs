//! What a failure says: the clause of the contract, the algorithm, what was expected and what was found.

use std::fmt::Debug;

use crate::check::Check;
use crate::outcome::GroupOutcome;
use crate::policy::Algorithm;

/// A clause of the contract of [`Store`](crate::store::Store), as one case tests it.
#[derive(Clone, Copy, Debug)]
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

    /// This number of units must remain of one limit of the group.
    #[track_caller]
    pub(super) fn remaining(self, when: &str, outcome: &GroupOutcome, limit: usize, expected: u64) {
        match outcome.outcomes().get(limit) {
            Some(found) => self.equal(&format!("remaining {when}"), found.remaining(), expected),
            None => self.fail(&format!("limit {limit} of a group has no outcome: {outcome:?}")),
        }
    }
}

/// How two outcomes differ, or what else a store did wrong.
#[derive(Debug)]
pub(super) struct Difference {
    clause: Option<Clause>,
    algorithm: Option<Algorithm>,
    message: String,
}

impl Difference {
    /// A difference that breaks this clause.
    pub(super) const fn of(clause: Clause, message: String) -> Self {
        Self { clause: Some(clause), algorithm: None, message }
    }

    /// Fails with what led to the difference. The broken clause is `clause`, unless the difference names
    /// another.
    #[track_caller]
    pub(super) fn fail(self, clause: Clause, how: &str) -> ! {
        let clause = Clause { algorithm: self.algorithm, ..self.clause.unwrap_or(clause) };
        clause.fail(&format!("{how}\n{}", self.message))
    }
}

/// How an outcome of the group differs from the expected one: the first limit whose outcomes differ.
pub(super) fn difference(
    which: &str,
    group: &[Check<'_>],
    found: &GroupOutcome,
    expected: &GroupOutcome,
) -> Option<Difference> {
    // Without the units of a bucket that were given back out of order: a store may drop a state once they no
    // longer matter.
    let outcomes = || found.outcomes().iter().zip(expected.outcomes());
    let is_same = outcomes().all(|(found, expected)| found.is_shown_as(expected));
    let sums = |group: &GroupOutcome| (group.at(), group.is_allowed(), group.outcomes().len());
    if is_same && sums(found) == sums(expected) {
        return None;
    }
    let shown = |found: &dyn Debug, expected: &dyn Debug| {
        format!("{which}:\n expected {expected:?}\n    found {found:?}")
    };
    if found.at() != expected.at() {
        let message =
            format!("instant, by the clock of the suite, of {}", shown(&found.at(), &expected.at()));
        return Some(Difference::of(ONE_CLOCK, message));
    }
    let mut limits = group.iter().zip(found.outcomes().iter().zip(expected.outcomes()));
    let differs = limits.find(|(_, (found, expected))| !found.is_shown_as(expected));
    Some(match differs.filter(|_| found.outcomes().len() == expected.outcomes().len()) {
        Some((check, (found, expected))) => Difference {
            clause: None,
            algorithm: Some(check.policy().algorithm()),
            message: format!("cost {} under {:?}, {}", check.cost(), check.policy(), shown(found, expected)),
        },
        None => Difference { clause: None, algorithm: None, message: shown(found, expected) },
    })
}
