//! Overrides of a limiter: giving them to it, and asking for the numbers in force.

use std::borrow::Borrow;
use std::sync::Arc;

use super::RateLimiter;
use super::builder::RateLimiterBuilder;
use crate::overrides::current::{OverridesGuard, Snapshot};
use crate::overrides::{InForce, Overrides, OverridesError};
use crate::policy::Policy;

impl RateLimiterBuilder {
    /// Adds policies that overrides may name, beside the limits of attributes. Call it before [`overrides`](Self::overrides).
    ///
    /// For policies of middleware, and for those that the application checks itself; see [`RateLimiter::in_force`].
    pub fn policies(self, policies: impl IntoIterator<Item: Borrow<Policy>>) -> Self {
        self.overrides.add_policies(policies);
        self
    }

    /// Sets numbers that replace those of the program, by the names of limits.
    ///
    /// # Errors
    ///
    /// If the overrides name what the program does not have, set numbers out of their bounds, or would let no request pass. The
    /// mistakes, up to 100, are in one error. Also if the file is [watched](Overrides::watch), and its thread does not start.
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
    /// let limiter = RateLimiter::builder(MemoryStore::new()).policies([&JOBS]).overrides(overrides)?.build();
    /// assert_eq!(limiter.in_force(&JOBS).policy().max(), 10);
    /// assert_eq!(limiter.in_force_for(&JOBS, None, "tenant-42").policy().max(), 500);
    ///
    /// let typo: Overrides = "[limit.job]\nmax = 5".parse()?;
    /// let error = RateLimiter::builder(MemoryStore::new()).policies([&JOBS]).overrides(typo).unwrap_err();
    /// assert!(error.to_string().contains("did you mean `jobs`?"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn overrides(self, overrides: Overrides) -> Result<Self, OverridesError> {
        overrides.start(&self.overrides)?;
        Ok(self)
    }
}

impl RateLimiter {
    /// Replaces all overrides at once, for sources other than a file. Decisions that are being made keep the old numbers.
    ///
    /// Checks the rows on the calling thread, while the old ones stay in force: call it from a thread that may block if there are
    /// many. Of two calls at once, that one wins whose check ends later.
    ///
    /// # Errors
    ///
    /// As with [`RateLimiterBuilder::overrides`]. The overrides before stay in force then.
    pub fn replace_overrides(&self, overrides: Overrides) -> Result<(), OverridesError> {
        overrides.start(&self.inner.overrides)
    }

    /// The numbers of a policy that are in force for callers without a row of their own.
    ///
    /// Handlers and middleware of `ratelimit-actix` do this by themselves. [`check`](Self::check) and its relatives take the
    /// policy that they are given.
    pub fn in_force<'p>(&self, policy: &'p Policy) -> InForce<'p> {
        self.look_up(policy, None, None)
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
        self.look_up(policy, plan, Some(partition.as_ref()))
    }

    fn look_up<'p>(&self, policy: &'p Policy, plan: Option<&str>, partition: Option<&[u8]>) -> InForce<'p> {
        let rows = self.inner.overrides.guard();
        match rows.as_ref().and_then(|rows| rows.limit(policy)) {
            Some(rows) => rows.in_force(plan, partition),
            None => InForce::program(policy),
        }
    }

    /// The rows of plans and callers that a policy has: the name of the plan or the text of the caller, and the numbers in force
    /// for it. Plans first, each kind in the order of the names.
    ///
    /// For a page of an operator. The texts name callers, so do not log them.
    pub fn override_rows(&self, policy: &Policy) -> Vec<(String, InForce<'static>)> {
        let rows = self.inner.overrides.guard();
        let limit = rows.as_ref().and_then(|rows| rows.limit(policy));
        limit.map(|rows| rows.named_rows(usize::MAX)).unwrap_or_default()
    }

    /// Why the newest contents of a [watched](Overrides::watch) file are not in force. `None` if they are.
    pub fn rejected_overrides(&self) -> Option<Arc<OverridesError>> {
        self.inner.overrides.rejected()
    }

    /// The overrides in force, for a request that does not wait. One relaxed load if there are none.
    #[doc(hidden)]
    #[inline]
    pub fn overrides_guard(&self) -> Option<OverridesGuard> {
        self.inner.overrides.guard()
    }

    /// The overrides for one request of `ratelimit-actix`. One relaxed load if there are none.
    #[doc(hidden)]
    #[inline]
    pub fn overrides_snapshot(&self) -> Option<Snapshot> {
        self.inner.overrides.snapshot()
    }

    /// The policies that the builder was given. For the page of an operator.
    #[doc(hidden)]
    pub fn given_policies(&self) -> Vec<Policy> {
        self.inner.overrides.given_policies()
    }

    /// Whether a snapshot is of this limiter.
    #[doc(hidden)]
    pub fn owns_snapshot(&self, snapshot: &Snapshot) -> bool {
        self.inner.overrides.id() == snapshot.owner()
    }

    #[cfg(test)]
    pub(crate) fn overrides_cell(&self) -> &Arc<crate::overrides::Current> {
        &self.inner.overrides
    }
}
