//! Correcting what one limit was charged for a request to the true cost.

use ratelimit_core::{GroupOutcome, Outcome, RateLimiter, Reservation, SettleError};
use smallvec::SmallVec;

use super::quota::Quota;

/// One limit of a request, with what it was charged. Owns everything, so that it outlives the request.
#[derive(Debug)]
pub(super) struct Settlement {
    limiter: RateLimiter,
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
        Self { limiter: limiter.clone(), charges: quota.charges().filter_map(charge).collect() }
    }

    pub(super) fn limiter(&self) -> &RateLimiter {
        &self.limiter
    }

    /// Corrects the sum of all charges to `actual` units, with `limiter`, which may have less time than the own one.
    pub(super) async fn settle(&self, limiter: &RateLimiter, actual: u64) -> Result<(), SettleError> {
        let Some((first, cost)) = self.charges.first() else { return Ok(()) };
        let sum = self.charges.iter().fold(0_u64, |sum, (_, cost)| sum.saturating_add(*cost));
        let Some(mut surplus) = sum.checked_sub(actual).filter(|surplus| *surplus > 0) else {
            return limiter.settle(first.clone(), cost + (actual - sum)).await;
        };
        // The latest charge counts for longest, so it is given back first.
        for (reservation, cost) in self.charges.iter().rev() {
            let units = surplus.min(*cost);
            if units > 0 {
                limiter.settle(reservation.clone(), cost - units).await?;
                surplus -= units;
            }
        }
        Ok(())
    }
}
