//! Random histories, compared with the reference: the specification as a store.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;

use crate::check::Check;
use crate::clock::{Clock, FakeClock, micros};
use crate::conformance::clause::{ALL_OR_NOTHING, DENIAL, Difference, EQUAL, difference};
use crate::conformance::history::{Event, What, World, smallest};
use crate::conformance::tested::{Fixture, Run, Tested, clock};
use crate::error::StoreError;
use crate::outcome::GroupOutcome;
use crate::reservation::{Charge, Reservation};
use crate::store::toolkit::{Operation, State, decide_with, refund_with, reset_with};
use crate::store::{Deadline, Store};

/// Histories, and the events of each.
const HISTORIES: u64 = 24;
const EVENTS: usize = 120;

/// Contracts 2 to 5: histories of all operations on random groups, compared event by event with
/// [`Reference`]. `make` makes an empty store; a failure shows the smallest history that still fails.
pub fn every_decision_is_that_of_the_reference<F: Fixture>(
    make: impl Fn(&FakeClock) -> Option<F>,
    run: impl Fn(Run<'_>),
) {
    let world = World::new();
    let fails = |history: &[Event]| {
        let clock = clock();
        let fixture = make(&clock)?;
        let found = Mutex::new(None);
        run(Box::pin(async {
            let failure = play(&world, history, &Tested::new(&fixture), &clock).await.err();
            *found.lock() = failure;
        }));
        found.into_inner()
    };
    for seed in 1..=HISTORIES {
        let history = world.random(seed, EVENTS);
        if let Some(failure) = fails(&history) {
            let (history, failure) = smallest(history, failure, fails);
            let is_group = history.iter().any(|event| event.limits.len() > 1);
            let clause = if is_group { ALL_OR_NOTHING } else { EQUAL };
            let events: Vec<String> = history.iter().map(|event| world.describe(event)).collect();
            let events = events.join("\n");
            failure.fail(clause, &format!("seed {seed}; the smallest history that fails:\n{events}"));
        }
    }
}

/// Plays a history on the store and on the reference. An error is the first difference.
async fn play(
    world: &World,
    history: &[Event],
    store: &Tested<'_, impl Store>,
    clock: &FakeClock,
) -> Result<(), Difference> {
    let reference = Reference::new(clock);
    let reference = Tested::new(&reference);
    // Of each event, for refunds.
    let mut reservations: HashMap<usize, Reservation<'_>> = HashMap::new();
    // Waits of the last outcome, after which a limit frees units.
    let mut waits: Vec<Duration> = Vec::new();
    for Event { id, what, limits } in history {
        let group = world.group(limits);
        let operation = match *what {
            What::Advance(time) => {
                clock.advance(time);
                continue;
            }
            What::AdvanceToWait(which, more) => {
                let wait = waits.get(which).copied().unwrap_or_default();
                clock.advance(wait.saturating_sub(Duration::from_micros(1)) + more);
                continue;
            }
            What::AdvanceToEnd(of, more) => {
                let charge = reservations.get(&of).and_then(|charges| charges.charges().next());
                let left = charge
                    .map_or(0, |charge| charge.until().as_micros())
                    .saturating_sub(clock.now().as_micros());
                clock.advance(Duration::from_micros(left.saturating_sub(1)) + more);
                continue;
            }
            What::Check | What::TryCheck => Some(Operation::Check),
            What::Peek => Some(Operation::Peek),
            What::Judge => Some(Operation::Judge),
            What::UpTo => Some(Operation::UpTo),
            What::Overdraw => Some(Operation::Overdraw),
            What::Wait(at_most) => Some(Operation::Wait { at_most_us: micros(at_most) }),
            What::Reset => {
                errors(store.reset(&group).await)?;
                errors(reference.reset(&group).await)?;
                None
            }
            What::Refund(of) => {
                let Some(reservation) = reservations.remove(&of) else { continue };
                for refunded in [store.refund(&reservation).await, reference.refund(&reservation).await] {
                    // A store need not report that a charge stays.
                    errors(refunded.or_else(|error| match error {
                        StoreError::TurnsNotDue => Ok(()),
                        error => Err(error),
                    }))?;
                }
                None
            }
        };
        if let Some(operation) = operation {
            let decided = if matches!(what, What::TryCheck) { store.try_check(&group) } else { None };
            let decided = match decided {
                Some(outcome) => Ok(outcome),
                None => store.outcome(&group, operation).await,
            };
            let has_several_callers = group.windows(2).any(|pair| pair[0].partition() != pair[1].partition());
            if has_several_callers
                && operation == Operation::UpTo
                && matches!(decided, Err(StoreError::SeveralCallers))
            {
                // A store may decide about one caller at a time.
                continue;
            }
            let (found, expected) = (errors(decided)?, errors(reference.outcome(&group, operation).await)?);
            // A store need not report what is left after a charge beyond the limit.
            if operation != Operation::Overdraw {
                differs(&format!("event {id}"), &group, &found, &expected)?;
            }
            let outcomes = expected.outcomes().iter();
            waits = outcomes.flat_map(|one| [Some(one.reset_after()), one.retry_after()]).flatten().collect();
            let reservation = match (&group[..], expected.outcomes()) {
                ([check], [turn]) if !turn.due_after().is_zero() => {
                    Some(Reservation::single(Charge::turn(*check, turn)))
                }
                _ if operation == Operation::Judge => None,
                _ => found.reservation(&group),
            };
            reservations.extend(reservation.map(|reservation| (*id, reservation)));
        }
        // A difference of the stored states may show only later, so all of them are compared now.
        let all = world.everything(limits, *id as u64 % 4);
        for group in all.chunks(crate::check::MAX_GROUP) {
            let found = errors(store.outcome(group, Operation::Peek).await)?;
            let expected = errors(reference.outcome(group, Operation::Peek).await)?;
            differs(&format!("a peek behind event {id}"), group, &found, &expected)?;
        }
    }
    Ok(())
}

fn errors<T>(result: Result<T, StoreError>) -> Result<T, Difference> {
    result.map_err(|error| Difference::of(DENIAL, format!("the store returned an error: {error}: {error:?}")))
}

fn differs(
    which: &str,
    group: &[Check<'_>],
    found: &GroupOutcome,
    expected: &GroupOutcome,
) -> Result<(), Difference> {
    difference(which, group, found, expected).map_or(Ok(()), Err)
}

/// Digests need no secret here.
const DIGEST_KEY: [u8; 16] = [0; 16];

/// The specification as a store: [`decide_with`] over a map, under one lock, and nothing else.
///
/// Never drops a state; use it only to compare other stores with.
pub struct Reference {
    clock: FakeClock,
    states: Mutex<HashMap<u128, State>>,
}

impl Reference {
    /// Creates an empty store on this clock.
    pub fn new(clock: &FakeClock) -> Self {
        Self { clock: clock.clone(), states: Mutex::default() }
    }
}

impl Store for Reference {
    async fn decide(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        _: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        let mut states = self.states.lock();
        Ok(decide_with(group, operation, self.clock.now(), &DIGEST_KEY, &mut *states).outcome)
    }

    async fn reset(&self, group: &[Check<'_>], _: Deadline) -> Result<(), StoreError> {
        reset_with(group, self.clock.now(), &DIGEST_KEY, &mut *self.states.lock());
        Ok(())
    }

    async fn refund(&self, reservation: &Reservation<'_>, _: Deadline) -> Result<(), StoreError> {
        let mut states = self.states.lock();
        refund_with(reservation, self.clock.now(), &DIGEST_KEY, &mut *states).result
    }
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reference").finish_non_exhaustive()
    }
}
