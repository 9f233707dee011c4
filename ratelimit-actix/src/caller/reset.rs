//! Forgets what is counted for a caller.

use ratelimit_core::{Check, MAX_GROUP, Policy, RateLimiter, StoreError};

use super::IntoCaller;
use super::counts::{checks, counts_of_limit, distinct, in_present_windows};
use crate::declared::DeclaredLimit;
use crate::written_limit::computed::Computed;

impl DeclaredLimit {
    /// Forgets what is counted for one caller of this limit, and ends its block: for a page of support, or
    /// after a payment.
    ///
    /// `caller` is what `by` of the limit returns. All counts that the caller may have are reset: those by
    /// the numbers of the program, and with the feature `overrides` those by the rows for all callers, for
    /// plans and for this caller, each also in the other [mode](ratelimit_core::Mode). Of numbers that are
    /// made at run time, such as a token bucket whose `max` is computed, it reaches those that this process
    /// has decided by, at most 8 for each name, with the feature `stats`; and none without it.
    ///
    /// An address stands for its network, an IPv6 address for its /64. Other processes may repeat a denial
    /// for up to 1 s, the TTL of the denial cache, and may use the unused units of their leases. Nothing
    /// happens without a caller, such as `None`.
    ///
    /// # Errors
    ///
    /// If the store does not answer, or cannot remove the counts. Some of them may be reset then; calling
    /// again is safe.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_actix::{RateLimiter, StoreError, declared_limits, rate_limit};
    ///
    /// #[rate_limit(max = 1_000, window = "1h", name = "orders", by = header("x-account"))]
    /// #[actix_web::get("/orders")]
    /// async fn orders() -> &'static str {
    ///     "orders"
    /// }
    ///
    /// async fn forgive(limiter: &RateLimiter, account: &str) -> Result<(), StoreError> {
    ///     for limit in declared_limits().iter().filter(|limit| limit.policy().name() == "orders") {
    ///         limit.reset_caller(limiter, account).await?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub async fn reset_caller(
        &self,
        limiter: &RateLimiter,
        caller: impl IntoCaller,
    ) -> Result<(), StoreError> {
        reset(limiter, self.policy(), self.computed(), caller).await
    }
}

/// The same as [`DeclaredLimit::reset_caller`] for a policy of middleware.
///
/// # Errors
///
/// As there.
pub async fn reset_caller(
    limiter: &RateLimiter,
    policy: &Policy,
    caller: impl IntoCaller,
) -> Result<(), StoreError> {
    reset(limiter, policy, &Computed::NONE, caller).await
}

async fn reset(
    limiter: &RateLimiter,
    policy: &Policy,
    computed: &'static Computed,
    caller: impl IntoCaller,
) -> Result<(), StoreError> {
    let caller = caller.into_caller();
    let Some(partition) = caller.partition() else { return Ok(()) };
    let counts = counts_of_limit(limiter, partition, policy, computed);
    reset_counts(limiter, &checks(&distinct(&counts), partition)).await
}

/// Forgets what is counted under these checks.
pub(crate) async fn reset_counts(limiter: &RateLimiter, checks: &[Check<'_>]) -> Result<(), StoreError> {
    for group in in_present_windows(limiter, checks).await.chunks(MAX_GROUP) {
        limiter.reset_all(group).await?;
    }
    Ok(())
}
