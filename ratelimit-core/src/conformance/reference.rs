//! The specification as a store.

use std::collections::HashMap;
use std::fmt;

use parking_lot::Mutex;

use crate::algorithm::{Member, Mode, State, decide};
use crate::check::Check;
use crate::clock::{Clock, FakeClock};
use crate::error::StoreError;
use crate::outcome::GroupOutcome;
use crate::reservation::Reservation;
use crate::store::Store;

/// The specification as a store: [`decide`] over a map, under one lock, and nothing else.
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

    fn decide(&self, group: &[Check<'_>], mode: Mode) -> GroupOutcome {
        let mut stored = self.states.lock();
        let mut distinct: Vec<(u128, State)> = Vec::new();
        let mut members = Vec::new();
        for check in group {
            let digest = check.digest(&[0; 16]);
            let state = distinct.iter().position(|(other, _)| *other == digest).unwrap_or_else(|| {
                let state = stored.get(&digest).cloned().unwrap_or_else(|| State::new(check.policy()));
                distinct.push((digest, state));
                distinct.len() - 1
            });
            members.push(Member { policy: check.policy(), cost: check.cost(), state });
        }
        let (digests, mut states): (Vec<_>, Vec<_>) = distinct.into_iter().unzip();
        let outcome = decide(&members, &mut states, self.clock.now(), mode);
        if mode == Mode::Check {
            stored.extend(digests.into_iter().zip(states));
        }
        outcome
    }
}

impl Store for Reference {
    async fn check(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        Ok(self.decide(group, Mode::Check))
    }

    async fn peek(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        Ok(self.decide(group, Mode::Peek))
    }

    async fn reset(&self, group: &[Check<'_>]) -> Result<(), StoreError> {
        for check in group {
            self.states.lock().remove(&check.digest(&[0; 16]));
        }
        Ok(())
    }

    async fn refund(&self, reservation: &Reservation<'_>) -> Result<(), StoreError> {
        for charge in reservation.charges() {
            let check = charge.check();
            if let Some(state) = self.states.lock().get_mut(&check.digest(&[0; 16])) {
                state.refund(check.policy(), self.clock.now(), charge.at(), charge.until(), check.cost());
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reference").finish_non_exhaustive()
    }
}
