//! A look at what is left for a caller of a declared limit.

use ratelimit_core::{Outcome, RateLimiter, StoreError};

use super::IntoCaller;
use crate::declared::DeclaredLimit;

impl DeclaredLimit {
    /// What is left for one caller of this limit, and whether a request of cost 1 passes now. Charges
    /// nothing.
    ///
    /// `caller` is what `by` of the limit returns, as for [`reset_caller`](Self::reset_caller). With the
    /// feature `overrides`, the numbers are those of the row of this caller, or else of the row for all
    /// callers; requests of a plan may have others.
    ///
    /// `None` without a caller, if the limit is off for the caller, and if `max` or `anchor` is computed for
    /// each request.
    ///
    /// # Errors
    ///
    /// As with [`RateLimiter::peek`].
    pub async fn peek_caller(
        &self,
        limiter: &RateLimiter,
        caller: impl IntoCaller,
    ) -> Result<Option<Outcome>, StoreError> {
        let caller = caller.into_caller();
        let Some(partition) = caller.partition() else { return Ok(None) };
        let in_force = limiter.in_force_for(self.policy(), None, partition);
        let computed = self.computed();
        if in_force.is_off() || computed.anchor.is_computed() || !computed.has_max(&in_force) {
            return Ok(None);
        }
        limiter.peek(in_force.policy(), partition).await.map(Some)
    }
}
