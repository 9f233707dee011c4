//! What the suite says about stores with a mistake: the clause, the algorithm, what was expected and what differs.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use ratelimit_core::clock::{Clock, FakeClock, SystemClock};
use ratelimit_core::conformance::{Tested, cases, clock};
use ratelimit_core::store::toolkit::{Operation, State, decide_with, refund_with, reset_with};
use ratelimit_core::store::{Deadline, Store};
use ratelimit_core::{Check, GroupOutcome, Mode, Outcome, Policy, PolicyBuilder, Reservation, StoreError};

use super::{DIGEST_KEY, block_on};

/// Mistakes that the random histories find; each with the clause that it breaks, if that does not depend on whether the smallest history
/// has a group, which is by chance.
macro_rules! mistakes {
    ($($(#[$doc:meta])* $mistake:ident $(: $clause:literal)?,)+) => {
        #[derive(Clone, Copy, Debug, PartialEq)]
        enum Mistake {
            /// Loads and stores in two transactions, which only a race finds.
            LostUpdate,
            $($(#[$doc])* $mistake,)+
        }

        const IN_HISTORIES: &[(Mistake, &str)] = &[$((Mistake::$mistake, concat!("contract " $(, $clause)?))),+];
    };
}

mistakes! {
    OwnClock: "4, one clock",
    DenialsAreErrors: "5, a denial is an outcome",
    DenialsCharge: "2, all or nothing",
    PeeksCharge,
    PeeksBeginBlocks,
    CostsOfZeroCharge,
    LargeCostsPass,
    ResetsForgetAll,
    ResetsForgetNothing,
    ChecksEachLimitByItself,
    /// A count that occurs twice in a group is charged once.
    ChargesACountOnce: "2, all or nothing",
    JudgesTheFirstLimitsOnly,
    CallersAreCStrings,
    CallersAreText,
    RefundsNothing,
    RefundsTheFirstChargeOnly,
    RefundsReachLaterWindows,
    UpToIsAllOrNothing,
    DebtsAreForgiven,
    ShadowLimitsAreNotCharged,
    ShadowDenialsChargeNothing,
    WaitsAreChecks,
    TurnsAreKept,
    // Decides under another policy.
    WithoutBlocks,
    WithLongerBlocks,
    ShadowLimitsAreEnforced,
    WithoutSubWindows,
    KeysAreOne,
    WindowsAreOne,
    MonthsHaveThirtyDays,
}

fn policy(like: &Policy) -> PolicyBuilder {
    let key = ["random", "other", "month"].into_iter().find(|key| *key == like.key()).unwrap();
    Policy::builder(key).algorithm(like.algorithm()).max(like.max()).window(like.window())
}

impl Mistake {
    /// The policy by which the store decides in place of another.
    fn instead(self, of: &Policy) -> Option<Policy> {
        let (minute, has_longer) = (Duration::from_secs(60), of.window() == Duration::from_secs(61));
        match self {
            Self::WithoutBlocks => of.block().map(|_| policy(of).build()),
            Self::WithLongerBlocks => of.block().map(|block| policy(of).block(2 * block).build()),
            Self::ShadowLimitsAreEnforced => (of.mode() == Mode::Shadow).then(|| policy(of).build()),
            Self::WithoutSubWindows => (of.sub_windows() > 1).then(|| policy(of).build()),
            Self::KeysAreOne => (of.key() == "other").then(|| policy(of).build().with_key("random").unwrap()),
            Self::WindowsAreOne => has_longer.then(|| policy(of).window(minute).build()),
            Self::MonthsHaveThirtyDays => {
                of.calendar().map(|_| policy(of).window(30 * 24 * 60 * minute).build())
            }
            _ => None,
        }
    }
}

#[derive(Debug)]
struct Broken {
    mistake: Mistake,
    clock: FakeClock,
    states: Mutex<HashMap<u128, State>>,
}

impl Broken {
    fn new(mistake: Mistake, clock: &FakeClock) -> Self {
        Self { mistake, clock: clock.clone(), states: Mutex::default() }
    }

    /// The policies and callers by which the store decides in place of those of the group.
    fn instead(&self, group: &[Check<'_>]) -> Vec<(Policy, Vec<u8>)> {
        let instead = |check: &Check<'_>| {
            let policy = self.mistake.instead(check.policy());
            let caller = check.partition();
            let caller = match self.mistake {
                Mistake::CallersAreCStrings => caller.split(|byte| *byte == 0).next().unwrap(),
                Mistake::CallersAreText => {
                    str::from_utf8(caller).map_or(b"?".as_slice(), |text| text.trim().as_bytes())
                }
                _ => caller,
            };
            (policy.unwrap_or_else(|| check.policy().clone()), caller.to_vec())
        };
        group.iter().map(instead).collect()
    }
}

impl Store for Broken {
    async fn decide(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        _: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        let now = match self.mistake {
            Mistake::OwnClock => SystemClock::new().now(),
            _ => self.clock.now(),
        };
        let instead = self.instead(group);
        let cost = |check: &Check<'_>| match self.mistake {
            Mistake::CostsOfZeroCharge => check.cost().max(1),
            Mistake::LargeCostsPass => check.cost().min(check.policy().capacity()),
            _ => check.cost(),
        };
        let checks = group.iter().zip(&instead);
        let mut checks: Vec<Check<'_>> = checks
            .map(|(check, (policy, caller))| Check::new(policy, caller).with_cost(cost(check)))
            .collect();
        let operation = match (self.mistake, operation) {
            (Mistake::PeeksCharge, Operation::Peek) | (Mistake::UpToIsAllOrNothing, Operation::UpTo) => {
                Operation::Check
            }
            (Mistake::PeeksBeginBlocks, Operation::Peek) => Operation::Judge,
            (Mistake::WaitsAreChecks, Operation::Wait { .. }) => Operation::Check,
            (Mistake::DebtsAreForgiven, Operation::Overdraw) => Operation::UpTo,
            (_, operation) => operation,
        };
        let lock = || self.states.lock().unwrap_or_else(PoisonError::into_inner);
        if self.mistake == Mistake::JudgesTheFirstLimitsOnly {
            checks.truncate(16);
        }
        if self.mistake == Mistake::LostUpdate {
            let mut states = lock().clone();
            let decided = decide_with(&checks, operation, now, &DIGEST_KEY, &mut states);
            thread::yield_now();
            lock().extend(decided.changed.iter().map(|digest| (*digest, states[digest].clone())));
            return Ok(decided.outcome);
        }
        let mut states = lock();
        let decide = |checks: &[Check<'_>], states: &mut HashMap<u128, State>| {
            decide_with(checks, operation, now, &DIGEST_KEY, states).outcome
        };
        let before = states.clone();
        if self.mistake == Mistake::ChecksEachLimitByItself {
            let outcomes: Vec<_> =
                checks.iter().map(|check| decide(&[*check], &mut states).outcomes()[0].clone()).collect();
            return Ok(GroupOutcome::new(now, outcomes));
        }
        let outcome = decide(&checks, &mut states);
        let digest = |check: &Check<'_>| check.digest(&DIGEST_KEY);
        match self.mistake {
            Mistake::DenialsAreErrors if !outcome.is_allowed() => {
                return Err(StoreError::rejected("too many requests"));
            }
            Mistake::DenialsCharge if !outcome.is_allowed() && operation == Operation::Check => {
                for check in &checks {
                    let _ = decide(&[*check], &mut states);
                }
            }
            Mistake::ChargesACountOnce => {
                *states = before;
                let mut seen = HashSet::new();
                checks.retain(|check| seen.insert(digest(check)));
                let _ = decide(&checks, &mut states);
            }
            Mistake::ShadowLimitsAreNotCharged => {
                for shadow in checks.iter().filter(|check| check.is_shadow()).map(digest) {
                    match before.get(&shadow) {
                        Some(state) => _ = states.insert(shadow, state.clone()),
                        None => _ = states.remove(&shadow),
                    }
                }
            }
            Mistake::ShadowDenialsChargeNothing if outcome.outcomes().iter().any(Outcome::would_deny) => {
                *states = before;
            }
            _ => {}
        }
        Ok(outcome)
    }

    async fn reset(&self, group: &[Check<'_>], _: Deadline) -> Result<(), StoreError> {
        let mut states = self.states.lock().unwrap();
        match self.mistake {
            Mistake::ResetsForgetAll => states.clear(),
            Mistake::ResetsForgetNothing => {}
            _ => reset_with(group, &DIGEST_KEY, &mut *states),
        }
        Ok(())
    }

    async fn refund(&self, reservation: &Reservation<'_>, _: Deadline) -> Result<(), StoreError> {
        let Some(charge) = reservation.charges().next() else { return Ok(()) };
        let first = reservation.limit(charge.check().policy().name());
        let reservation = match (self.mistake, &first) {
            (Mistake::RefundsTheFirstChargeOnly, Some(first)) => first,
            _ => reservation,
        };
        let now = match self.mistake {
            Mistake::RefundsReachLaterWindows => charge.at(),
            _ => self.clock.now(),
        };
        let is_lost = self.mistake == Mistake::RefundsNothing
            || self.mistake == Mistake::TurnsAreKept && charge.is_turn();
        if !is_lost {
            refund_with(reservation, now, &DIGEST_KEY, &mut *self.states.lock().unwrap());
        }
        Ok(())
    }
}

/// The failure of a case about a store with a mistake.
fn failure(case: impl Fn()) -> String {
    let failed = catch_unwind(AssertUnwindSafe(case));
    failed.unwrap_err().downcast_ref::<String>().unwrap().clone()
}

fn failure_of_histories(mistake: Mistake) -> String {
    failure(|| {
        cases::every_decision_is_that_of_the_reference(
            |clock| Some(Broken::new(mistake, clock)),
            |future| block_on(future),
        );
    })
}

#[test]
fn a_lost_update_is_found() {
    let clock = clock();
    let store = Broken::new(Mistake::LostUpdate, &clock);
    let message = failure(|| {
        cases::one_of_those_that_race_for_a_unit_gets_it(&Tested::new(&store), &clock, |future| {
            block_on(future);
        });
    });
    assert!(message.starts_with("contract 1, atomic; "), "{message}");
    assert!(message.contains("requests of 8 at once that passed under a limit of 1, in round "), "{message}");
    assert!(message.contains(": expected 1, found "), "{message}");
}

#[test]
fn every_mistake_is_found_in_a_small_history_that_names_its_clause() {
    for &(mistake, clause) in IN_HISTORIES {
        let message = failure_of_histories(mistake);
        assert!(message.starts_with(clause), "{mistake:?}: {message}");
        let events = message.lines().filter(|line| line.starts_with("event ")).count();
        println!("{mistake:?}: {events} events, {}", message.lines().next().unwrap());
        assert!((1..=8).contains(&events), "{mistake:?}: {events} events: {message}");
    }
}

#[test]
fn a_failure_shows_the_history_and_only_the_outcome_that_differs() {
    let message = failure_of_histories(Mistake::RefundsNothing);
    assert!(message.contains("seed ") && message.contains("the smallest history that fails:"), "{message}");
    assert!(message.contains("Refund("), "{message}");
    assert_eq!(message.matches("Outcome {").count(), 2, "the expected one and the found one: {message}");
}
