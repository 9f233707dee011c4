//! A custom store: one map behind one lock, checked by the published conformance suite.
//!
//! `cargo run --example custom_store`, and `cargo test --example custom_store` for the suite.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ratelimit_core::clock::{Clock, SystemClock};
use ratelimit_core::store::toolkit::{Operation, State, decide_with, refund_with, reset_with};
use ratelimit_core::store::{Deadline, Store};
use ratelimit_core::{Check, Decision, GroupOutcome, Policy, RateLimiter, Reservation, StoreError};

/// All counts in one map. Unlike the built-in store it has no bound on its size.
#[derive(Debug)]
struct MapStore<C> {
    clock: C,
    /// Secret of the digests that stand for callers. A store that outlives the process must persist it.
    digest_key: [u8; 16],
    states: Mutex<HashMap<u128, State>>,
}

impl<C: Clock> MapStore<C> {
    fn new(clock: C, digest_key: [u8; 16]) -> Self {
        Self { clock, digest_key, states: Mutex::default() }
    }

    /// Locks the map. The lock makes each decision atomic.
    fn states(&self) -> MutexGuard<'_, HashMap<u128, State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Clock> Store for MapStore<C> {
    async fn decide(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        _: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        let mut states = self.states();
        Ok(decide_with(group, operation, self.clock.now(), &self.digest_key, &mut *states).outcome)
    }

    async fn reset(&self, group: &[Check<'_>], _: Deadline) -> Result<(), StoreError> {
        let mut states = self.states();
        reset_with(group, self.clock.now(), &self.digest_key, &mut *states);
        Ok(())
    }

    async fn refund(&self, reservation: &Reservation<'_>, _: Deadline) -> Result<(), StoreError> {
        let mut states = self.states();
        refund_with(reservation, self.clock.now(), &self.digest_key, &mut *states).result
    }
}

static JOBS: Policy = Policy::new("jobs", 3, Duration::from_secs(60));

#[actix_web::main]
async fn main() -> Result<(), StoreError> {
    let limiter = RateLimiter::new(MapStore::new(SystemClock::new(), *b"not a secret key"));
    for job in 1..=5 {
        let outcome = limiter.check(&JOBS, "tenant-42").await?;
        match outcome.decision() {
            Decision::Allowed => println!("job {job} may start, {} more at once", outcome.remaining()),
            Decision::Denied { retry_after: Some(wait) } => {
                println!("job {job} has to wait {} s", wait.as_secs_f32().ceil());
            }
            _ => println!("job {job} never starts"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod conformance {
    use ratelimit_core::clock::FakeClock;

    use super::MapStore;

    #[allow(clippy::unnecessary_wraps, reason = "the suite wants an option: `None` skips")]
    fn store(clock: &FakeClock) -> Option<MapStore<FakeClock>> {
        Some(MapStore::new(clock.clone(), [0; 16]))
    }

    fn block_on<F: Future>(future: F) -> F::Output {
        actix_web::rt::System::new().block_on(future)
    }

    ratelimit_core::conformance_suite! { store: store, block_on: block_on }
}
