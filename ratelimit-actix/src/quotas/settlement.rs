//! Correcting what one limit was charged for a request to the true cost: at once, or when a streaming body
//! ends, also if the client goes away.

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ratelimit_core::__private_0_1::{help, spawn};
use ratelimit_core::policy::MAX_UNITS;
use ratelimit_core::{GroupOutcome, Outcome, RateLimiter, Reservation, SettleError};
use smallvec::{SmallVec, smallvec};
use tokio::runtime::Handle;

use super::quota::Quota;

/// One limit of a request, with what it was charged. Owns everything, so that it outlives the request.
#[derive(Debug)]
pub(super) struct Settlement {
    pub(super) limiter: RateLimiter,
    /// The charges in their order, each with its units. A shadow limit that would deny was charged nothing.
    charges: SmallVec<[(Reservation<'static>, u64); 1]>,
}

impl Settlement {
    /// For all charges of a limit.
    pub(super) fn new(limiter: &RateLimiter, quota: &Quota) -> Self {
        let charge = |outcome: &Outcome| {
            let cost = outcome.cost();
            let group = GroupOutcome::new(outcome.at(), [outcome.clone()]);
            Some((group.reservation(&[quota.check().with_cost(cost)])?.into_owned(), cost))
        };
        Self { limiter: limiter.clone(), charges: quota.charges().iter().filter_map(charge).collect() }
    }

    /// Charges, each with the units to which it has to be settled, so that the sum of all is `actual`.
    fn parts(&self, actual: u64) -> SmallVec<[(Reservation<'static>, u64); 1]> {
        let Some((first, cost)) = self.charges.first() else { return SmallVec::new() };
        let sum = self.charges.iter().fold(0_u64, |sum, (_, cost)| sum.saturating_add(*cost));
        let Some(mut surplus) = sum.checked_sub(actual).filter(|surplus| *surplus > 0) else {
            return smallvec![(first.clone(), cost + (actual - sum))];
        };
        // The latest charge counts for longest, so it is given back first.
        let parts = self.charges.iter().rev().map(|(reservation, cost)| {
            let units = surplus.min(*cost);
            surplus -= units;
            (reservation.clone(), cost - units)
        });
        parts.collect()
    }

    /// Settles all charges, one after another, until one fails.
    pub(super) async fn settle(&self, actual: u64) -> Result<(), SettleError> {
        for (charge, actual) in self.parts(actual) {
            self.limiter.settle(charge, actual).await?;
        }
        Ok(())
    }
}

/// A number of units that grows while a response is sent. Clones share it.
///
/// An `Arc<AtomicU64>` of your own can stand for it.
///
/// # Examples
///
/// ```
/// use ratelimit_actix::UsageCounter;
///
/// let counter = UsageCounter::default();
/// counter.clone().add(3);
/// assert_eq!(counter.get(), 3);
/// ```
#[derive(Clone, Debug, Default)]
pub struct UsageCounter(Arc<AtomicU64>);

impl UsageCounter {
    /// Adds units. The sum stops at the largest number.
    pub fn add(&self, units: u64) {
        let add = |sum: u64| Some(sum.saturating_add(units));
        // It returns an error only where the function returns `None`.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// The sum so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl From<Arc<AtomicU64>> for UsageCounter {
    fn from(counter: Arc<AtomicU64>) -> Self {
        Self(counter)
    }
}

impl From<&Self> for UsageCounter {
    fn from(counter: &Self) -> Self {
        counter.clone()
    }
}

/// Settles a limit when it is dropped, to what its counter says then. From
/// [`LimitCharge::settle_on_drop`](crate::LimitCharge::settle_on_drop).
///
/// Move it into the stream of a response: it is dropped with the body, at its end or when the client has gone
/// away.
#[must_use = "the limit is settled when this is dropped; move it into the stream of the response"]
pub struct SettleOnDrop {
    /// `None` for a limit that does not apply to the request.
    pub(super) settlement: Option<Settlement>,
    pub(super) counter: UsageCounter,
}

impl Drop for SettleOnDrop {
    fn drop(&mut self) {
        let Some(settlement) = self.settlement.take() else { return };
        let actual = self.counter.get().min(MAX_UNITS);
        let (limiter, unsettled) = (settlement.limiter.clone(), Unsettled);
        let task = Box::pin(async move {
            // The limiter logs failures.
            let _ = settlement.settle(actual).await;
            mem::forget(unsettled);
        });
        if let Err(task) = spawn(&limiter, task)
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(task);
        }
    }
}

/// Logs a settlement that is dropped before it has ended.
struct Unsettled;

impl Drop for Unsettled {
    fn drop(&mut self) {
        tracing::error!(
            help = help("settled-without-a-runtime"),
            "a limit could not be settled when a response ended, because there was no tokio runtime, or it ended; \
             what was charged stays charged"
        );
    }
}

impl fmt::Debug for SettleOnDrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SettleOnDrop").field("counter", &self.counter).finish_non_exhaustive()
    }
}
