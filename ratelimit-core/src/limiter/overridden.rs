//! Gives overrides to a limiter.

use std::borrow::Borrow;
use std::sync::Arc;

use super::RateLimiter;
use super::builder::RateLimiterBuilder;
use crate::overrides::{Overrides, OverridesError};
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

    /// Why the newest contents of a [watched](Overrides::watch) file are not in force. `None` if they are.
    pub fn rejected_overrides(&self) -> Option<Arc<OverridesError>> {
        self.inner.overrides.rejected()
    }

    #[cfg(test)]
    pub(crate) fn overrides_cell(&self) -> &Arc<crate::overrides::Current> {
        &self.inner.overrides
    }
}
