//! What the suite says about stores with a mistake: the clause, the algorithm, what was expected and what differs.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread;

use ratelimit_core::clock::{Clock, FakeClock, SystemClock};
use ratelimit_core::conformance::{Tested, cases, clock};
use ratelimit_core::store::toolkit::{Operation, State, decide_with, refund_with, reset_with};
use ratelimit_core::store::{Deadline, Store};
use ratelimit_core::{Check, GroupOutcome, Reservation, StoreError};

use super::{DIGEST_KEY, block_on};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mistake {
    /// Loads and stores in two transactions.
    LostUpdate,
    OwnClock,
    RefundsTheFirstChargeOnly,
    ChecksEachLimitByItself,
}

#[derive(Debug)]
struct Broken {
    mistake: Mistake,
    clock: FakeClock,
    states: Mutex<HashMap<u128, State>>,
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
        let lock = || self.states.lock().unwrap_or_else(PoisonError::into_inner);
        match self.mistake {
            Mistake::LostUpdate => {
                let mut states = lock().clone();
                let decided = decide_with(group, operation, now, &DIGEST_KEY, &mut states);
                thread::yield_now();
                lock().extend(decided.changed.iter().map(|digest| (*digest, states[digest].clone())));
                Ok(decided.outcome)
            }
            Mistake::ChecksEachLimitByItself => {
                let decide = |check: &Check<'_>| {
                    decide_with(&[*check], operation, now, &DIGEST_KEY, &mut *lock()).outcome.outcomes()[0]
                        .clone()
                };
                Ok(GroupOutcome::new(now, group.iter().map(decide)))
            }
            _ => Ok(decide_with(group, operation, now, &DIGEST_KEY, &mut *lock()).outcome),
        }
    }

    async fn reset(&self, group: &[Check<'_>], _: Deadline) -> Result<(), StoreError> {
        reset_with(group, &DIGEST_KEY, &mut *self.states.lock().unwrap());
        Ok(())
    }

    async fn refund(&self, reservation: &Reservation<'_>, _: Deadline) -> Result<(), StoreError> {
        let charge = reservation.charges().next().unwrap();
        let first = reservation.limit(charge.check().policy().name());
        let reservation = match (self.mistake, &first) {
            (Mistake::RefundsTheFirstChargeOnly, Some(first)) => first,
            _ => reservation,
        };
        refund_with(reservation, self.clock.now(), &DIGEST_KEY, &mut *self.states.lock().unwrap());
        Ok(())
    }
}

/// The failure of a case about a store with a mistake.
fn failure(mistake: Mistake, case: impl Fn(&Tested<'_, Broken>, &FakeClock)) -> String {
    let clock = clock();
    let store = Broken { mistake, clock: clock.clone(), states: Mutex::default() };
    let failed = catch_unwind(AssertUnwindSafe(|| case(&Tested::new(&store), &clock)));
    let panic = failed.unwrap_err();
    panic.downcast_ref::<String>().unwrap().clone()
}

#[test]
fn a_lost_update_is_found() {
    let message = failure(Mistake::LostUpdate, |store, clock| {
        cases::one_of_those_that_race_for_a_unit_gets_it(store, clock, |future| block_on(future));
    });
    assert!(message.starts_with("contract 1, atomic; "), "{message}");
    assert!(message.contains("requests of 8 at once that passed under a limit of 1, in round "), "{message}");
    assert!(message.contains(": expected 1, found "), "{message}");
}

#[test]
fn another_clock_is_named_first() {
    let message = failure(Mistake::OwnClock, |store, clock| {
        cases::the_given_clock_is_used(store, clock, |future| block_on(future));
    });
    assert!(
        message
            .starts_with("contract 4, one clock: instant of a check, by the clock of the suite: expected "),
        "{message}"
    );
    let random = failure(Mistake::OwnClock, |store, clock| {
        cases::every_decision_is_that_of_the_reference(store, clock, |future| block_on(future));
    });
    assert!(random.starts_with("contract 4, one clock: instant of "), "{random}");
}

#[test]
fn a_failure_shows_only_the_outcome_that_differs() {
    let message = failure(Mistake::RefundsTheFirstChargeOnly, |store, clock| {
        cases::every_decision_is_that_of_the_reference(store, clock, |future| block_on(future));
    });
    assert!(message.starts_with("contract 3, equal to `decide_with`; "), "{message}");
    assert!(message.contains("a peek after the refund of step "), "{message}");
    assert_eq!(message.matches("Outcome {").count(), 2, "the expected one and the found one: {message}");
}

#[test]
fn a_group_check_by_check_is_found() {
    let message = failure(Mistake::ChecksEachLimitByItself, |store, clock| {
        cases::a_group_is_all_or_nothing(store, clock, |future| block_on(future));
    });
    assert_eq!(
        message,
        "contract 2, all or nothing: remaining of the limit that admits, in the denial: expected 99, found 98"
    );
}
