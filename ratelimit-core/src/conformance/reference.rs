//! The specification as a store.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;

use crate::check::Check;
use crate::clock::{Clock, FakeClock};
use crate::error::StoreError;
use crate::outcome::GroupOutcome;
use crate::reservation::Reservation;
use crate::store::Store;
use crate::store::toolkit::{Operation, State, decide_with, refund_with, reset_with};

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

    fn decide(&self, group: &[Check<'_>], operation: Operation) -> GroupOutcome {
        decide_with(group, operation, self.clock.now(), &DIGEST_KEY, &mut *self.states.lock())
    }
}

impl Store for Reference {
    async fn check(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        Ok(self.decide(group, Operation::Check))
    }

    async fn peek(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        Ok(self.decide(group, Operation::Peek))
    }

    async fn check_up_to_within(
        &self,
        group: &[Check<'_>],
        units: u64,
        _limit: Duration,
    ) -> Result<GroupOutcome, StoreError> {
        let group: Vec<Check<'_>> = group.iter().map(|check| check.with_cost(units)).collect();
        Ok(self.decide(&group, Operation::UpTo))
    }

    async fn overdraw_within(&self, group: &[Check<'_>], _limit: Duration) -> Result<(), StoreError> {
        let _ = self.decide(group, Operation::Overdraw);
        Ok(())
    }

    async fn reset(&self, group: &[Check<'_>]) -> Result<(), StoreError> {
        reset_with(group, &DIGEST_KEY, &mut *self.states.lock());
        Ok(())
    }

    async fn refund(&self, reservation: &Reservation<'_>) -> Result<(), StoreError> {
        refund_with(reservation, self.clock.now(), &DIGEST_KEY, &mut *self.states.lock());
        Ok(())
    }
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reference").finish_non_exhaustive()
    }
}
