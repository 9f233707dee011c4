//! Building policies of a key, a name, and settings.

use std::borrow::Cow;
use std::time::Duration;

use super::numbers::PolicyNumbers;
use super::settings::{PolicyBuilder, Settings};
use super::state_kind::is_name;
use super::{Algorithm, Policy, PolicyError};

impl Policy {
    /// Starts a policy of 100 units per 60 s whose counts are stored under `key`.
    ///
    /// A key has 1 to [`MAX_NAME_LEN`](super::MAX_NAME_LEN) printable ASCII characters without blanks,
    /// braces, quotes and backslashes. Policies with the same key, mode, algorithm, window and sub-windows
    /// share their counts; for token buckets also `max` and burst must be the same.
    pub const fn builder(key: &'static str) -> PolicyBuilder {
        PolicyBuilder { key, name: None, settings: Settings::new() }
    }

    /// Creates a policy of `max` units per `window`, counted by a [sliding window
    /// counter](Algorithm::SlidingWindowCounter) over two windows.
    ///
    /// # Panics
    ///
    /// Panics if a number is out of its bounds; in a `static` or `const` that is a compile error. For numbers
    /// that are known only at run time, use [`PolicyBuilder::try_build`].
    pub const fn new(key: &'static str, max: u64, window: Duration) -> Self {
        Self::builder(key).max(max).window(window).build()
    }

    /// Creates a concurrency limit: at most `max` requests of a caller run at a time, over all processes that
    /// share the store.
    ///
    /// A request takes a slot and holds it until its work ends: see
    /// [`RateLimiter::acquire`](crate::RateLimiter::acquire), and
    /// [`GroupOutcome::take_slots`](crate::GroupOutcome::take_slots) for groups. Of a process that crashes,
    /// slots are free again within 10 s.
    ///
    /// * A denial is [busy](crate::Outcome::is_busy), and has no
    ///   [`retry_after`](crate::Outcome::retry_after): no process knows when a slot is freed.
    /// * Another `max` keeps the slots that are held. While more are held than `max`, no further one is
    ///   taken.
    /// * It has neither window nor sub-windows, burst, block and lease. Its slots are neither refunded nor
    ///   settled: they are freed.
    ///
    /// For a failure policy or a mode, use the builder with [`Algorithm::Concurrency`].
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_core::{Algorithm, OnError, Policy};
    ///
    /// static STREAMS: Policy = Policy::concurrency("streams", 3);
    ///
    /// static EXPORTS: Policy =
    ///     Policy::builder("exports").algorithm(Algorithm::Concurrency).max(1).on_error(OnError::Deny).build();
    ///
    /// assert!(STREAMS.is_concurrency() && EXPORTS.is_concurrency());
    /// ```
    pub const fn concurrency(key: &'static str, max: u64) -> Self {
        Self::builder(key).algorithm(Algorithm::Concurrency).max(max).build()
    }
}

impl PolicyBuilder {
    /// Sets the name of the policy in headers and metrics; by default its key. Policies with different names
    /// may share a key, and then share their counts.
    ///
    /// 1 to [`MAX_NAME_LEN`](crate::policy::MAX_NAME_LEN) printable ASCII characters without blanks, braces,
    /// quotes and backslashes, as for a key.
    pub const fn name(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    /// Builds the policy.
    ///
    /// # Panics
    ///
    /// Panics if a number, key or name is out of its bounds, with the text of the [`PolicyError`]. In a
    /// `static` or `const` that is a compile error.
    pub const fn build(self) -> Policy {
        match self.judged() {
            Ok(numbers) => self.policy(numbers),
            Err(error) => panic!("{}", error.message()),
        }
    }

    /// Builds the policy from numbers that are known only at run time.
    ///
    /// # Errors
    ///
    /// The [`PolicyError`] of the first number, key or name that is out of its bounds.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_core::{Policy, PolicyError};
    ///
    /// assert_eq!(Policy::builder("k").max(0).try_build(), Err(PolicyError::Max));
    /// ```
    pub const fn try_build(self) -> Result<Policy, PolicyError> {
        match self.judged() {
            Ok(numbers) => Ok(self.policy(numbers)),
            Err(error) => Err(error),
        }
    }

    const fn policy(self, numbers: PolicyNumbers) -> Policy {
        let name = match self.name {
            Some(name) => Some(Cow::Borrowed(name)),
            None => None,
        };
        Policy { key: Cow::Borrowed(self.key), name, numbers, state_id: 0 }.identified()
    }

    const fn judged(&self) -> Result<PolicyNumbers, PolicyError> {
        if !is_name(self.key) {
            return Err(PolicyError::Key);
        }
        if let Some(name) = self.name
            && !is_name(name)
        {
            return Err(PolicyError::Name);
        }
        self.settings.judged()
    }
}
