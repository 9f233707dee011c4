//! Correcting what one limit was charged for a request to the true cost.

use ratelimit_core::{GroupOutcome, Outcome, OwnedReservation, RateLimiter, SettleError};

use super::quota::Quota;

/// What one limit was charged for a request. Owns everything, so that it outlives the request.
#[derive(Debug)]
pub(super) struct Settlement {
    limiter: RateLimiter,
    /// In the order of the charges, each with its units.
    charges: Vec<(OwnedReservation, u64)>,
}

impl Settlement {
    /// For all charges of a limit.
    pub(super) fn new(limiter: &RateLimiter, quota: &Quota) -> Self {
        let charge = |outcome: &Outcome| {
            let cost = outcome.cost();
            // A shadow limit that would deny was charged nothing.
            let group = GroupOutcome::new(outcome.at(), [outcome.clone()]);
            Some((group.reservation(&[quota.check().with_cost(cost)])?.into_owned(), cost))
        };
        Self { limiter: limiter.clone(), charges: quota.charges().iter().filter_map(charge).collect() }
    }

    pub(super) fn limiter(&self) -> &RateLimiter {
        &self.limiter
    }

    /// Corrects the sum of all charges to `actual` units, with `limiter`, which may have less time than the own one.
    pub(super) async fn settle(&self, limiter: &RateLimiter, actual: u64) -> Result<(), SettleError> {
        let Some((first, cost)) = self.charges.first() else { return Ok(()) };
        let charged = self.charges.iter().fold(0_u64, |sum, (_, cost)| sum.saturating_add(*cost));
        let Some(mut surplus) = charged.checked_sub(actual).filter(|surplus| *surplus > 0) else {
            return limiter.settle(first.as_reservation(), cost + (actual - charged)).await;
        };
        // The latest charge counts for longest, so it is given back first.
        for (reservation, cost) in self.charges.iter().rev() {
            let units = surplus.min(*cost);
            if units > 0 {
                limiter.settle(reservation.as_reservation(), cost - units).await?;
                surplus -= units;
            }
        }
        Ok(())
    }
}
