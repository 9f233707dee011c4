//! Checks over a chosen lane: the store's, as any caller checks, or that of a worker, as the facade checks
//! for a handler.

use std::time::{Duration, Instant};

use ratelimit_core::__private_0_1::PrivateLimiter as _;
use ratelimit_core::{Check, GroupOutcome, Outcome, Policy, RateLimiter, StoreError};

use crate::outage::{PROBE, until_settled};

/// The lane of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    Store,
    /// That of the runtime which polls the check.
    Worker,
}

impl Lane {
    /// For what both must do.
    pub const BOTH: [Self; 2] = [Self::Store, Self::Worker];

    /// Charges a caller one unit.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn check(
        self,
        limiter: &RateLimiter,
        policy: &Policy,
        caller: impl AsRef<[u8]>,
    ) -> Result<Outcome, StoreError> {
        match self {
            Self::Store => limiter.check(policy, caller).await,
            Self::Worker => {
                let outcome = self.check_all(limiter, &[Check::new(policy, &caller)]).await?;
                Ok(outcome.outcomes()[0].clone())
            }
        }
    }

    /// Checks a group.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn check_all(
        self,
        limiter: &RateLimiter,
        group: &[Check<'_>],
    ) -> Result<GroupOutcome, StoreError> {
        match self {
            Self::Store => limiter.check_all(group).await,
            Self::Worker => limiter.check_all_on_worker(group).await,
        }
    }

    /// Waits until the lane has its connection, if no other worker has one.
    pub async fn until_connected(self, limiter: &RateLimiter) {
        match self {
            Self::Store => until_settled(limiter).await,
            Self::Worker => until_connected(limiter, 2).await,
        }
    }
}

/// Lanes that have a connection.
pub fn lanes(limiter: &RateLimiter) -> usize {
    limiter.store_status().connection.unwrap().lanes
}

/// Checks as a worker until so many lanes have a connection.
#[allow(clippy::disallowed_methods, reason = "a deadline for a real process, not logic")]
pub async fn until_connected(limiter: &RateLimiter, count: usize) {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let _ = Lane::Worker.check(limiter, &PROBE, "connected").await;
        if lanes(limiter) >= count {
            return;
        }
        assert!(Instant::now() < end, "{} of {count} lanes", lanes(limiter));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
