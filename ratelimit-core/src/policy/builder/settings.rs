//! What applications set of a policy: the short forms, and each setting with its meaning.

use std::time::Duration;

use super::{Lease, PolicyBuilder};
#[cfg(feature = "calendar")]
use crate::policy::Calendar;
use crate::policy::{Algorithm, Mode, OnError, Policy};

impl Policy {
    /// Creates a policy of `max` units per `window`, counted by a [sliding window counter](Algorithm::SlidingWindowCounter)
    /// over two windows.
    ///
    /// # Panics
    ///
    /// Panics if a number is out of its bounds; in a `static` or `const` that is a compile error. For numbers that are
    /// known only at run time, use [`PolicyBuilder::try_build`].
    pub const fn new(key: &'static str, max: u64, window: Duration) -> Self {
        Self::builder(key).max(max).window(window).build()
    }

    /// Creates a concurrency limit: at most `max` requests of a caller run at a time, over all processes that share the store.
    ///
    /// A request takes a slot and holds it until its work ends: see [`RateLimiter::acquire`](crate::RateLimiter::acquire), and
    /// [`GroupOutcome::take_slots`](crate::GroupOutcome::take_slots) for groups. Of a process that crashes, slots are free again
    /// within 10 s.
    ///
    /// * A denial is [busy](crate::Outcome::is_busy), and has no [`retry_after`](crate::Outcome::retry_after): no process knows when a
    ///   slot is freed.
    /// * Another `max` keeps the slots that are held. While more are held than `max`, no further one is taken.
    /// * It has neither window nor sub-windows, burst, block and lease. Its slots are neither refunded nor settled: they are
    ///   freed.
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
    /// Sets the units allowed per window, from 1 to [`MAX_UNITS`](crate::policy::MAX_UNITS); for a token bucket, the units refilled per window. By
    /// default 100.
    ///
    /// Another `max` keeps the counts, except for a token bucket, which starts full.
    pub const fn max(mut self, max: u64) -> Self {
        self.max = max;
        self
    }

    /// Sets the length of the window, from [`MIN_WINDOW`](crate::policy::MIN_WINDOW) to [`MAX_WINDOW`](crate::policy::MAX_WINDOW), in whole microseconds. By default 60 s.
    ///
    /// Another window starts new counts. [`Window`](crate::policy::Window) reads a text such as `"1h30m"`. The feature `serde` writes
    /// only windows in whole milliseconds.
    pub const fn window(mut self, window: Duration) -> Self {
        self.window = Some(window);
        self.calendar = None;
        self
    }

    /// Sets days, weeks, months or years as windows, counted by a [fixed window](Algorithm::FixedWindow).
    ///
    /// Another kind starts new counts. Another zone keeps them, and so does another day on which windows begin, until the next
    /// window if the new one begins less than half a window after the old one. Redis has to keep its data for as long.
    #[cfg(feature = "calendar")]
    pub const fn calendar(mut self, calendar: Calendar) -> Self {
        self.calendar = Some(calendar);
        self.algorithm = Algorithm::FixedWindow;
        self
    }

    /// Sets the algorithm by which units are counted. By default a sliding window counter, which admits fewer than 2 × `max`
    /// units within one window's length.
    ///
    /// Another algorithm starts new counts; see [`Algorithm`] for how to choose. [`Algorithm::Concurrency`] makes it a
    /// [concurrency limit](Policy::concurrency).
    pub const fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// Sets the number of parts into which a sliding window counter divides its window, from 1 to [`MAX_SUB_WINDOWS`](crate::policy::MAX_SUB_WINDOWS); by default 1.
    ///
    /// With 1 it weighs two whole windows; with more it comes nearer to the exact log. The window must be a whole multiple
    /// of this number, in microseconds.
    pub const fn sub_windows(mut self, sub_windows: u64) -> Self {
        self.sub_windows = Some(sub_windows);
        self
    }

    /// Sets the units that a full token bucket holds, from 1 to [`MAX_UNITS`](crate::policy::MAX_UNITS); by default `max`. They can pass at one instant.
    ///
    /// Only for [`Algorithm::TokenBucket`]. The time to refill a full bucket, `burst * window / max`, is at most
    /// [`MAX_WINDOW`](crate::policy::MAX_WINDOW).
    pub const fn burst(mut self, burst: u64) -> Self {
        self.burst = Some(burst);
        self
    }

    /// Sets the failure policy for an outage of the store: fall back to counts of this process (the default), fail closed, or
    /// fail open.
    ///
    /// [`OnError::Local`] admits up to `max` units more per process, [`OnError::Deny`] turns an outage of the store into
    /// errors for every request under this limit, and [`OnError::Allow`] removes the limit for that time. In a group, one
    /// limit that fails closed is enough for the error.
    pub const fn on_error(mut self, on_error: OnError) -> Self {
        self.on_error = on_error;
        self
    }

    /// Sets for how long the first denial blocks the caller; by default not at all.
    ///
    /// The first denial under this limit replaces the counts by the instant of its end, `block` later. Until then every
    /// request under the limit is denied, with the exact wait, and does not prolong the block. Then the full quota is
    /// available.
    ///
    /// At least the window, and for a token bucket at least the time to refill a full bucket, so that nothing that was counted
    /// outlives the block. At most [`MAX_WINDOW`](crate::policy::MAX_WINDOW), in whole microseconds. See [`Policy::block`] for the details.
    pub const fn block(mut self, block: Duration) -> Self {
        self.block = Some(block);
        self
    }

    /// Takes a block away again.
    pub(crate) const fn without_block(mut self) -> Self {
        self.block = None;
        self
    }

    /// Sets whether the limit denies requests: [`Mode::Enforce`] (the default) or [`Mode::Shadow`], which only reports what it
    /// would deny.
    ///
    /// Another mode starts new counts.
    pub const fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the lease: a hot caller below its limit is decided in this process, by units that Redis has charged ahead. By
    /// default off; at most [`MAX_LEASE`](crate::policy::MAX_LEASE), typically 100 ms.
    ///
    /// Never more requests pass than without. The process charges what the caller is likely to ask for within this time, and
    /// gives back what is not used for this time. Denials still come from Redis, so a caller at its limit gains little.
    /// `remaining` and the waits of an admitted request are those of the last answer of Redis, up to 1 s old.
    ///
    /// Only for fixed windows and sliding window counters. Only for the Redis store; every other store ignores it.
    /// `docs/leases.md` has the guarantee, its bounds under faults, and when a lease pays.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_core::Policy;
    ///
    /// static ALL: Policy = Policy::builder("all").max(100_000).lease(Duration::from_millis(100)).build();
    ///
    /// assert_eq!(ALL.lease(), Some(Duration::from_millis(100)));
    /// ```
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = Lease::Of(lease);
        self
    }

    /// Turns leases off for this limit, also in a store with a default.
    pub const fn without_lease(mut self) -> Self {
        self.lease = Lease::Off;
        self
    }

    /// Sets the name of the policy in headers and metrics; by default its key. Policies with different names may share a key,
    /// and then share their counts.
    ///
    /// 1 to [`MAX_NAME_LEN`](crate::policy::MAX_NAME_LEN) printable ASCII characters without blanks, braces, quotes and backslashes, as
    /// for a key.
    pub const fn name(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }
}
