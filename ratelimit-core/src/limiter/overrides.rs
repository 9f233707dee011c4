//! The numbers in force, of overrides or of the program, and the overrides of a limiter.

#[cfg(feature = "overrides")]
use std::borrow::Borrow;
#[cfg(feature = "overrides")]
use std::sync::Arc;

use super::RateLimiter;
#[cfg(feature = "overrides")]
use super::builder::RateLimiterBuilder;
use crate::overrides::InForce;
use crate::overrides::in_force::OverridesStatus;
use crate::overrides::shared_table::OverridesGuard;
#[cfg(feature = "overrides")]
use crate::overrides::{Overrides, OverridesError};
use crate::policy::Policy;

impl RateLimiter {
    /// The numbers of a policy that are in force for callers without a row of their own. Without the feature
    /// `overrides`, the numbers of the program.
    ///
    /// Handlers and middleware of `ratelimit-actix` do this by themselves. [`check`](Self::check) and the
    /// methods like it decide by the policy that is passed.
    pub fn in_force<'p>(&self, policy: &'p Policy) -> InForce<'p> {
        match self.overrides_guard().limit(policy) {
            Some(overridden) => overridden.into_owned(),
            None => policy.into(),
        }
    }

    /// The numbers of a policy that are in force for one caller: from its row, otherwise from its plan.
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

    /// The overrides in force, for a group that is decided now. Costs one relaxed load if there have not been
    /// any.
    #[inline]
    pub(crate) fn overrides_guard(&self) -> OverridesGuard {
        self.inner.overrides.guard()
    }

    /// The overrides as a whole. `None` if there have not been any. For the page of an operator.
    pub(crate) fn overrides_status(&self) -> Option<OverridesStatus> {
        self.inner.overrides.status()
    }

    /// The policies that were passed to the builder. For the page of an operator.
    pub(crate) fn builder_policies(&self) -> Vec<Policy> {
        self.inner.overrides.builder_policies()
    }
}

#[cfg(feature = "overrides")]
impl RateLimiterBuilder {
    /// Adds policies that overrides may name, beside the limits of attributes.
    ///
    /// For policies of middleware, and for policies that the application checks itself; see
    /// [`RateLimiter::in_force`].
    pub fn policies(self, policies: impl IntoIterator<Item: Borrow<Policy>>) -> Self {
        self.current.policies.add(policies);
        self
    }

    /// Sets numbers that replace those of the program, by the names of limits. [`try_build`](Self::try_build)
    /// checks them.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_core::overrides::Overrides;
    /// use ratelimit_core::{MemoryStore, Policy, RateLimiter};
    ///
    /// static JOBS: Policy = Policy::new("jobs", 10, Duration::from_secs(60));
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let overrides: Overrides = "[limit.jobs.callers]\n\"partition tenant-42\" = { max = 500 }".parse()?;
    /// let limiter = RateLimiter::builder(MemoryStore::new()).policies([&JOBS]).overrides(overrides).try_build()?;
    /// assert_eq!(limiter.in_force(&JOBS).policy().max(), 10);
    /// assert_eq!(limiter.in_force_for(&JOBS, None, "tenant-42").policy().max(), 500);
    ///
    /// let typo: Overrides = "[limit.job]\nmax = 5".parse()?;
    /// let builder = RateLimiter::builder(MemoryStore::new()).policies([&JOBS]).overrides(typo);
    /// assert!(builder.try_build().unwrap_err().to_string().contains("did you mean `jobs`?"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn overrides(mut self, overrides: Overrides) -> Self {
        self.overrides = Some(overrides);
        self
    }
}

#[cfg(feature = "overrides")]
impl RateLimiter {
    /// Replaces all overrides at once, for sources other than a file. Decisions that are being made keep the
    /// old numbers.
    ///
    /// Checks the rows on the calling thread, while the old ones stay in force: call it from a thread that
    /// may block if there are many. If two calls run at once, the call whose check ends later replaces the
    /// other.
    ///
    /// # Errors
    ///
    /// As with [`RateLimiterBuilder::try_build`]. The previous overrides then stay in force.
    pub fn replace_overrides(&self, overrides: Overrides) -> Result<(), OverridesError> {
        overrides.start(&self.inner.overrides)
    }

    /// Why the newest contents of a [watched](Overrides::watch) file are not in force. `None` if they are.
    pub fn rejected_overrides(&self) -> Option<Arc<OverridesError>> {
        self.inner.overrides.watches.rejected()
    }

    #[cfg(test)]
    pub(crate) fn overrides_cell(&self) -> &Arc<crate::overrides::Current> {
        &self.inner.overrides
    }
}
