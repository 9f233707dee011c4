//! The store under test, by one handle or by two in turns, and what makes it; and what every case needs.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::algorithm::Operation;
use crate::check::Check;
use crate::clock::{FakeClock, Timestamp};
use crate::error::StoreError;
use crate::outcome::GroupOutcome;
use crate::policy::{Algorithm, Policy};
use crate::reservation::Reservation;
use crate::store::{Deadline, Store};

/// Result of a suite's store function: a store, or a value that has a store and what it needs, such as a
/// server.
pub trait Fixture: Sync {
    /// Type of the store.
    type Store: Store;
    /// The store under test.
    fn store(&self) -> &Self::Store;

    /// Another handle on the same counts, such as one with a connection of its own; by default none. Then
    /// every case calls both in turns.
    fn second(&self) -> Option<&Self::Store> {
        None
    }
}

impl<S: Store> Fixture for S {
    type Store = S;

    fn store(&self) -> &S {
        self
    }
}

/// The store under test. With [two handles](Fixture::second) on the same counts, each call takes the other
/// one.
#[derive(Debug)]
pub struct Tested<'s, S> {
    handles: [&'s S; 2],
    calls: AtomicUsize,
}

impl<'s, S: Store> Tested<'s, S> {
    /// The handles of a fixture.
    pub fn new(fixture: &'s impl Fixture<Store = S>) -> Self {
        let first = fixture.store();
        Self { handles: [first, fixture.second().unwrap_or(first)], calls: AtomicUsize::new(0) }
    }

    fn handle(&self) -> &'s S {
        self.handles[self.calls.fetch_add(1, Ordering::Relaxed) % 2]
    }

    pub(super) async fn outcome(
        &self,
        group: &[Check<'_>],
        operation: Operation,
    ) -> Result<GroupOutcome, StoreError> {
        self.handle().decide(group, operation, Deadline::none()).await
    }

    /// Decides by [`Store::try_decide`], if the store can.
    pub(super) fn try_check(&self, group: &[Check<'_>]) -> Option<GroupOutcome> {
        self.handle().try_decide(group, Operation::Check)
    }

    pub(super) async fn check(&self, group: &[Check<'_>]) -> GroupOutcome {
        answer(self.outcome(group, Operation::Check).await)
    }

    pub(super) async fn peek(&self, group: &[Check<'_>]) -> GroupOutcome {
        answer(self.outcome(group, Operation::Peek).await)
    }

    pub(super) async fn reset(&self, group: &[Check<'_>]) -> Result<(), StoreError> {
        self.handle().reset(group, Deadline::none()).await
    }

    pub(super) async fn refund(&self, reservation: &Reservation<'_>) -> Result<(), StoreError> {
        self.handle().refund(reservation, Deadline::none()).await
    }

    /// Frees the slots of a decision: those in the outcome by dropping it, and the others by a refund.
    pub(super) async fn free(&self, group: &[Check<'_>], outcome: GroupOutcome) {
        if let Some(charges) = outcome.charges_to_free(group) {
            answer(self.refund(&charges).await);
        }
    }
}

/// The result of a call. A store under test must return no error.
fn answer<T>(result: Result<T, StoreError>) -> T {
    result.unwrap_or_else(|error| panic!("the store returned an error: {error}: {error:?}"))
}

pub(super) const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn policy(key: &'static str, algorithm: Algorithm, max: u64) -> Policy {
    Policy::builder(key).algorithm(algorithm).max(max).window(MINUTE).build()
}

/// The future of a case.
pub type Run<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Creates a clock at a fixed instant in 2026 that is no multiple of a second.
pub fn clock() -> FakeClock {
    FakeClock::at(Timestamp::from_micros(1_790_000_000_123_456))
}
