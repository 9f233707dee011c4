//! Resets one caller of a limit, for code of the application.

use ratelimit_core::{Policy, RateLimiter, StoreError};

use super::IntoCaller;
use crate::handler::registry::DeclaredLimit;

impl DeclaredLimit {
    /// Forgets what is counted for one caller of this limit, and ends its block: for a page of support, or after a payment.
    ///
    /// `caller` is what `by` of the limit returns. All counts that the caller may have are reset: those by the numbers of the
    /// program, and with the feature `overrides` those by the rows for all callers, for plans and for this caller, each also in the
    /// other [mode](ratelimit_core::Mode). The state of a token bucket whose `max` is computed for each request is not reset.
    ///
    /// An address stands for its network, an IPv6 address for its /64. Other processes may repeat a denial for up to 1 s, the TTL
    /// of the denial cache, and may use units of leases that they hold. Nothing happens without a caller, such as `None`.
    ///
    /// # Errors
    ///
    /// If the store does not answer, or cannot remove the counts. Some of them may be reset then; calling again is safe.
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
    ///     for limit in declared_limits().iter().filter(|limit| limit.name() == "orders") {
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
        reset_caller(limiter, self.policy(), caller).await
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
    let caller = caller.into_caller();
    let Some(partition) = caller.partition() else { return Ok(()) };
    limiter.reset(policy, partition).await?;
    #[cfg(feature = "overrides")]
    for policies in overridden(limiter, policy, partition).chunks(ratelimit_core::MAX_GROUP) {
        let group: Vec<_> =
            policies.iter().map(|policy| ratelimit_core::Check::new(policy, partition)).collect();
        limiter.reset_all(&group).await?;
    }
    Ok(())
}

/// The policies of the rows that may apply to a caller, in both modes: a row may have changed the mode since the caller was
/// counted. Each stands for another count.
#[cfg(feature = "overrides")]
fn overridden(limiter: &RateLimiter, policy: &Policy, partition: &[u8]) -> Vec<Policy> {
    use std::collections::HashSet;

    use ratelimit_core::__private_0_1::in_both_modes;

    use crate::quotas::count_id;

    let rows = [limiter.in_force(policy), limiter.in_force_for(policy, None, partition)];
    let guard = limiter.overrides_guard();
    let limit = guard.as_ref().and_then(|guard| guard.limit(policy));
    // Rows of plans come first, and there may be thousands of other callers.
    let plans = limit.map(|limit| limit.named_rows(limit.row_counts().0)).unwrap_or_default();
    let mut known = HashSet::from([count_id(policy)]);
    let is_new = |policy: &Policy| known.insert(count_id(policy));
    let rows = rows.into_iter().chain(plans.into_iter().map(|(_, row)| row));
    let of_rows = rows.flat_map(|row| in_both_modes(row.policy()));
    in_both_modes(policy).into_iter().chain(of_rows).filter(is_new).collect()
}
