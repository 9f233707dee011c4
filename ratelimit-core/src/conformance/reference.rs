//! The specification as a store.

use std::collections::HashMap;
use std::fmt;

use parking_lot::Mutex;

use crate::check::Check;
use crate::clock::{Clock, FakeClock};
use crate::error::StoreError;
use crate::outcome::GroupOutcome;
use crate::reservation::Reservation;
use crate::store::toolkit::{Operation, State, decide_with, refund_with, reset_with};
use crate::store::{Deadline, Store};

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
        reset_with(group, &DIGEST_KEY, &mut *self.states.lock());
        Ok(())
    }

    async fn refund(&self, reservation: &Reservation<'_>, _: Deadline) -> Result<(), StoreError> {
        let mut states = self.states.lock();
        refund_with(reservation, self.clock.now(), &DIGEST_KEY, &mut *states);
        Ok(())
    }
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reference").finish_non_exhaustive()
    }
}
