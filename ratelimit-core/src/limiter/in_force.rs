//! Asks for the numbers in force: those of overrides, or of the program.

use super::RateLimiter;
use crate::overrides::InForce;
use crate::overrides::current::OverridesGuard;
use crate::policy::Policy;

impl RateLimiter {
    /// The numbers of a policy that are in force for callers without a row of their own. Those of the program without the feature
    /// `overrides`.
    ///
    /// Handlers and middleware of `ratelimit-actix` do this by themselves. [`check`](Self::check) and its relatives take the
    /// policy that they are given.
    pub fn in_force<'p>(&self, policy: &'p Policy) -> InForce<'p> {
        match self.overrides_guard().limit(policy) {
            Some(overridden) => overridden.into_owned(),
            None => policy.into(),
        }
    }

    /// The numbers of a policy that are in force for one caller: those of its row, otherwise those of its plan.
    ///
    /// Check, settle and refund by the policy that this returns, so that all three have the same numbers.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_core::{Policy, RateLimiter};
    ///
    /// static JOBS: Policy = Policy::new("jobs", 10, Duration::from_secs(60));
    ///
    /// # async fn work(limiter: RateLimiter) -> Result<(), ratelimit_core::StoreError> {
    /// let jobs = limiter.in_force_for(&JOBS, Some("pro"), "tenant-42");
    /// if jobs.is_off() || limiter.check(jobs.policy(), "tenant-42").await?.is_allowed() {
    ///     // Work.
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn in_force_for<'p>(
        &self,
        policy: &'p Policy,
        plan: Option<&str>,
        partition: impl AsRef<[u8]>,
    ) -> InForce<'p> {
        self.in_force(policy).of_request(plan, partition.as_ref())
    }

    /// The overrides in force, for a group that is decided now. One relaxed load if there have not been any.
    #[doc(hidden)]
    #[inline]
    pub fn overrides_guard(&self) -> OverridesGuard {
        self.inner.overrides.guard()
    }

    /// The overrides as a whole. `None` if there have not been any. For the page of an operator.
    #[doc(hidden)]
    pub fn overrides_status(&self) -> Option<crate::overrides::OverridesStatus> {
        self.inner.overrides.status()
    }

    /// The policies that the builder was given. For the page of an operator.
    #[doc(hidden)]
    pub fn given_policies(&self) -> Vec<Policy> {
        self.inner.overrides.given_policies()
    }
}
