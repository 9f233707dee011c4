//! Refunds of charges, and resets of callers.

use super::{RateLimiter, validate_size};
use crate::check::Check;
use crate::error::StoreError;
use crate::policy::Policy;
use crate::reservation::Reservation;

impl RateLimiter {
    /// Refunds the charges of a decision, as far as they still count.
    ///
    /// A refund never touches units of a later window, and never raises what remains above the full quota.
    /// See [`GroupOutcome::reservation`](crate::GroupOutcome::reservation). While [turns](Self::wait) of a
    /// token bucket are not due, only its last charge is refunded.
    ///
    /// # Errors
    ///
    /// [`StoreError::TurnsNotDue`] if a charge that still counts stays because of turns; another
    /// [`StoreError`] if the store cannot be reached in time: it is then unknown whether the units were
    /// refunded, and a warning is logged, at most once per second.
    ///
    /// **Warning:** do not retry a refund. The first one may still take effect, and a second one would then
    /// refund the units of other requests.
    pub async fn refund(&self, reservation: Reservation<'_>) -> Result<(), StoreError> {
        self.inner.refund(&reservation, self.deadline).await
    }

    /// Drops the state of one caller under one policy, in the store and in the fallback of this process.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if the store cannot be reached; it is then unknown whether the state was dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_core::{Policy, RateLimiter};
    ///
    /// static LOGIN: Policy = Policy::new("login", 1, Duration::from_secs(900));
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let limiter = RateLimiter::in_memory();
    /// let _ = limiter.check(&LOGIN, "alice").await?;
    /// assert!(!limiter.peek(&LOGIN, "alice").await?.is_allowed());
    /// // After a talk with support:
    /// limiter.reset(&LOGIN, "alice").await?;
    /// assert!(limiter.peek(&LOGIN, "alice").await?.is_allowed());
    /// # Ok::<(), ratelimit_core::StoreError>(())
    /// # }).unwrap();
    /// ```
    pub async fn reset(&self, policy: &Policy, partition: impl AsRef<[u8]>) -> Result<(), StoreError> {
        self.reset_all(&[Check::new(policy, &partition)]).await
    }

    /// Drops the states of a group in one round trip, in the store and in the fallback of this process. The
    /// costs of the checks do not matter. A Redis cluster takes one round trip for each caller, all at the
    /// same time.
    ///
    /// # Errors
    ///
    /// As with [`reset`](Self::reset), and [`StoreError::GroupTooLarge`] if the group has more than
    /// [`MAX_GROUP`](crate::MAX_GROUP) limits.
    pub async fn reset_all(&self, group: &[Check<'_>]) -> Result<(), StoreError> {
        validate_size(group)?;
        let result = self.inner.store.as_dyn().reset(group, self.deadline).await;
        if !matches!(result, Err(StoreError::Forked)) {
            for check in group {
                self.inner.fallback.reset(check);
            }
        }
        result
    }
}
