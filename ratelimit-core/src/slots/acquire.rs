//! A slot of a concurrency limit, for work without HTTP.

use crate::check::Check;
use crate::error::StoreError;
use crate::limiter::{RateLimiter, only};
use crate::outcome::Outcome;
use crate::policy::Policy;
use crate::slots::Slots;

impl RateLimiter {
    /// Takes a slot of a [concurrency limit](Policy::concurrency) for the caller `partition`, for as long as
    /// the work takes: it is freed when the slots are dropped. Returns the outcome if no slot is free.
    ///
    /// [`check`](Self::check) of such a limit says whether a slot is free, and takes none. To take slots and
    /// charge rates in one decision, use [`check_all`](Self::check_all) and
    /// [`take_slots`](crate::GroupOutcome::take_slots). Under another policy this charges one unit, like
    /// `check`, and the slots are empty.
    ///
    /// # Errors
    ///
    /// As with [`check`](Self::check).
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped holds no slot.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_core::{Policy, RateLimiter};
    ///
    /// static EXPORTS: Policy = Policy::concurrency("exports", 1);
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let limiter = RateLimiter::in_memory();
    /// match limiter.acquire(&EXPORTS, "tenant-42").await? {
    ///     Ok(slot) => {
    ///         // The work. Meanwhile no other export of this tenant runs.
    ///         assert!(limiter.acquire(&EXPORTS, "tenant-42").await?.is_err_and(|denied| denied.is_busy()));
    ///         drop(slot);
    ///     }
    ///     Err(denied) => println!("{} exports run already", denied.capacity()),
    /// }
    /// assert!(limiter.acquire(&EXPORTS, "tenant-42").await?.is_ok());
    /// # Ok::<(), ratelimit_core::StoreError>(())
    /// # }).unwrap();
    /// ```
    pub async fn acquire(
        &self,
        policy: &Policy,
        partition: impl AsRef<[u8]>,
    ) -> Result<Result<Slots, Outcome>, StoreError> {
        let mut outcome = self.check_all(&[Check::new(policy, &partition)]).await?;
        let slots = outcome.take_slots();
        let outcome = only(outcome)?;
        Ok(if outcome.is_allowed() { Ok(slots) } else { Err(outcome) })
    }
}
