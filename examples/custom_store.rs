//! A custom store: one map behind one lock, checked by the published conformance suite.
//!
//! `cargo run --example custom_store`, and `cargo test --example custom_store` for the suite.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ratelimit_core::algorithm::{Member, Mode, State, decide};
use ratelimit_core::clock::{Clock, SystemClock};
use ratelimit_core::store::Store;
use ratelimit_core::{Check, GroupOutcome, Policy, RateLimiter, Reservation, StoreError};

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

    fn decide(&self, group: &[Check<'_>], mode: Mode) -> GroupOutcome {
        // The lock makes the decision atomic. A poisoned lock is safe to use: states are written back in one step, so a
        // panic cannot leave half a decision behind.
        let mut kept = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        // A count that occurs twice in the group has one state.
        let (mut digests, mut states, mut members) = (Vec::new(), Vec::new(), Vec::new());
        for check in group {
            let digest = check.digest(&self.digest_key);
            let state = digests.iter().position(|other| *other == digest).unwrap_or_else(|| {
                digests.push(digest);
                states.push(kept.get(&digest).cloned().unwrap_or_else(|| State::new(check.policy())));
                states.len() - 1
            });
            members.push(Member { policy: check.policy(), cost: check.cost(), state });
        }
        let outcome = decide(&members, &mut states, self.clock.now(), mode);
        if mode == Mode::Check {
            kept.extend(digests.into_iter().zip(states));
        }
        outcome
    }
}

impl<C: Clock> Store for MapStore<C> {
    async fn check(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        Ok(self.decide(group, Mode::Check))
    }

    async fn peek(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        Ok(self.decide(group, Mode::Peek))
    }

    async fn reset(&self, group: &[Check<'_>]) -> Result<(), StoreError> {
        let mut kept = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        for check in group {
            kept.remove(&check.digest(&self.digest_key));
        }
        Ok(())
    }

    async fn refund(&self, reservation: &Reservation<'_>) -> Result<(), StoreError> {
        let now = self.clock.now();
        let mut kept = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        for charge in reservation.charges() {
            let check = charge.check();
            if let Some(state) = kept.get_mut(&check.digest(&self.digest_key)) {
                state.refund(check.policy(), now, charge.at(), charge.until(), check.cost());
            }
        }
        Ok(())
    }
}

static JOBS: Policy = Policy::new("jobs", 3, Duration::from_secs(60));

#[actix_web::main]
async fn main() -> Result<(), StoreError> {
    let limiter = RateLimiter::with_store(MapStore::new(SystemClock::new(), *b"not a secret key"));
    for job in 1..=5 {
        let outcome = limiter.check(&JOBS, "tenant-42").await?;
        match outcome.retry_after() {
            None => println!("job {job} may start, {} more at once", outcome.remaining()),
            Some(wait) => println!("job {job} has to wait {} s", wait.as_secs_f32().ceil()),
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
