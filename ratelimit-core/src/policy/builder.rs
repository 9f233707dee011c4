//! Building policies: defaults, setters and every check of the numbers.

use std::borrow::Cow;
use std::time::Duration;

use super::state_kind::is_name;
use super::{
    Algorithm, Calendar, HOLD, MAX_LEASE, MAX_SUB_WINDOWS, MAX_UNITS, MAX_WINDOW, MIN_WINDOW, Mode, OnError,
    Policy, PolicyError,
};

/// The window of a policy that sets none.
const DEFAULT_WINDOW: Duration = Duration::from_secs(60);

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

    /// Starts a policy of 100 units per 60 s whose counts are stored under `key`.
    ///
    /// A key has 1 to [`MAX_NAME_LEN`](super::MAX_NAME_LEN) printable ASCII characters without blanks, braces, quotes and
    /// backslashes. Policies with the same key, mode, algorithm, window and sub-windows share their counts; for token buckets
    /// also `max` and burst must be the same.
    pub const fn builder(key: &'static str) -> PolicyBuilder {
        PolicyBuilder {
            key,
            name: None,
            algorithm: Algorithm::SlidingWindowCounter,
            max: 100,
            window: None,
            calendar: None,
            sub_windows: None,
            burst: None,
            on_error: OnError::Local,
            block: None,
            mode: Mode::Enforce,
            lease: Lease::Unset,
        }
    }
}

impl Policy {
    /// A builder with the numbers of this policy, without its key and name. A burst that equals `max` is left out, so that it
    /// follows another `max`.
    pub(crate) fn to_builder(&self) -> PolicyBuilder {
        let lease = match (self.lease(), self.lease_us) {
            (Some(lease), _) => Lease::Of(lease),
            (None, Self::NO_LEASE) => Lease::Off,
            (None, _) => Lease::Unset,
        };
        PolicyBuilder {
            algorithm: self.algorithm,
            max: self.max,
            window: self.rate_window(),
            calendar: self.calendar,
            sub_windows: self.algorithm.has_sub_windows().then_some(self.sub_windows),
            burst: (self.burst != self.max).then_some(self.burst),
            on_error: self.on_error,
            block: self.block(),
            mode: self.mode,
            lease,
            ..Self::builder("key")
        }
    }

    /// This policy under the key and the name of `other`.
    pub(crate) fn with_names_of(self, other: &Self) -> Self {
        Self { key: other.key.clone(), name: other.name.clone(), ..self }.identified()
    }
}

/// Builds a [`Policy`]; by default 100 units per 60 s, counted by a sliding window counter over two windows.
#[derive(Clone, Copy, Debug)]
#[must_use = "a builder does nothing until `build` or `try_build`"]
pub struct PolicyBuilder {
    key: &'static str,
    name: Option<&'static str>,
    algorithm: Algorithm,
    max: u64,
    /// `None` for the default.
    window: Option<Duration>,
    calendar: Option<Calendar>,
    sub_windows: Option<u64>,
    burst: Option<u64>,
    on_error: OnError,
    block: Option<Duration>,
    mode: Mode,
    lease: Lease,
}

/// The lease of a limit, as set so far.
#[derive(Clone, Copy, Debug)]
enum Lease {
    Unset,
    Off,
    Of(Duration),
}

impl PolicyBuilder {
    /// Sets the units allowed per window, from 1 to [`MAX_UNITS`]; for a token bucket, the units refilled per window. By
    /// default 100.
    ///
    /// Another `max` keeps the counts, except for a token bucket, which starts full.
    pub const fn max(mut self, max: u64) -> Self {
        self.max = max;
        self
    }

    /// Sets the length of the window, from [`MIN_WINDOW`] to [`MAX_WINDOW`], in whole microseconds. By default 60 s.
    ///
    /// Another window starts new counts. [`Window`](super::Window) reads a text such as `"1h30m"`. The feature `serde` writes
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

    /// Sets the number of parts into which a sliding window counter divides its window, from 1 to [`MAX_SUB_WINDOWS`]; by default 1.
    ///
    /// With 1 it weighs two whole windows; with more it comes nearer to the exact log. The window must be a whole multiple
    /// of this number, in microseconds.
    pub const fn sub_windows(mut self, sub_windows: u64) -> Self {
        self.sub_windows = Some(sub_windows);
        self
    }

    /// Sets the units that a full token bucket holds, from 1 to [`MAX_UNITS`]; by default `max`. They can pass at one instant.
    ///
    /// Only for [`Algorithm::TokenBucket`]. The time to refill a full bucket, `burst * window / max`, is at most
    /// [`MAX_WINDOW`].
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
    /// outlives the block. At most [`MAX_WINDOW`], in whole microseconds. See [`Policy::block`] for the details.
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
    /// default off; at most [`MAX_LEASE`], typically 100 ms.
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
    /// 1 to [`MAX_NAME_LEN`](super::MAX_NAME_LEN) printable ASCII characters without blanks, braces, quotes and backslashes, as
    /// for a key.
    pub const fn name(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    /// Builds the policy.
    ///
    /// # Panics
    ///
    /// Panics if a number, key or name is out of its bounds, with the text of the [`PolicyError`]. In a `static` or
    /// `const` that is a compile error.
    pub const fn build(self) -> Policy {
        match self.checked() {
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
        match self.checked() {
            Ok(numbers) => Ok(self.policy(numbers)),
            Err(error) => Err(error),
        }
    }

    const fn policy(
        self,
        DerivedNumbers { window_us, sub_windows, burst, block_us, lease_us }: DerivedNumbers,
    ) -> Policy {
        let Self { key, algorithm, max, calendar, on_error, mode, .. } = self;
        let name = match self.name {
            Some(name) => Some(Cow::Borrowed(name)),
            None => None,
        };
        let policy = Policy {
            key: Cow::Borrowed(key),
            name,
            algorithm,
            max,
            window_us,
            calendar,
            sub_windows,
            burst,
            on_error,
            block_us,
            mode,
            lease_us,
            state_id: 0,
        };
        policy.identified()
    }

    /// Checks all bounds: the combinations of numbers that every algorithm can compute exactly.
    const fn checked(&self) -> Result<DerivedNumbers, PolicyError> {
        let Self { algorithm, max, .. } = *self;
        if !is_name(self.key) {
            return Err(PolicyError::Key);
        }
        if let Some(name) = self.name
            && !is_name(name)
        {
            return Err(PolicyError::Name);
        }
        if max < 1 || max > MAX_UNITS {
            return Err(PolicyError::Max);
        }
        if algorithm.holds_slots()
            && (self.window.is_some()
                || self.calendar.is_some()
                || self.block.is_some()
                || matches!(self.lease, Lease::Of(_)))
        {
            return Err(PolicyError::OnlyForRates);
        }
        let window = match self.window {
            Some(window) => window,
            None if algorithm.holds_slots() => HOLD,
            None => DEFAULT_WINDOW,
        };
        let window_us = match &self.calendar {
            Some(calendar) if !calendar.has_anchor() => return Err(PolicyError::Anchor),
            Some(_) if !matches!(algorithm, Algorithm::FixedWindow) => {
                return Err(PolicyError::CalendarAlgorithm);
            }
            Some(calendar) => calendar.longest_us(),
            None => match window_micros(window) {
                Ok(micros) => micros,
                Err(error) => return Err(error),
            },
        };
        let sub_windows = match self.sub_windows {
            None => 1,
            Some(_) if !algorithm.has_sub_windows() => {
                return Err(PolicyError::SubWindowsWithoutCounter);
            }
            Some(n) if n < 1 || n > MAX_SUB_WINDOWS => return Err(PolicyError::SubWindows),
            Some(n) if !window_us.is_multiple_of(n) => return Err(PolicyError::SubWindowsNotWhole),
            Some(n) => n,
        };
        let burst = match self.burst {
            None => max,
            Some(_) if !algorithm.has_burst() => {
                return Err(PolicyError::BurstWithoutTokenBucket);
            }
            Some(n) if n < 1 || n > MAX_UNITS => return Err(PolicyError::Burst),
            Some(n) => n,
        };
        // Full refill time, burst * window / max, in microseconds.
        if self.calendar.is_none()
            && (burst as u128) * (window_us as u128) > MAX_WINDOW.as_micros() * (max as u128)
        {
            return Err(PolicyError::Refill);
        }
        let block_us = match self.block {
            None => 0,
            Some(block) => {
                let nanos = block.as_nanos();
                if nanos < 1000 * (window_us as u128)
                    || nanos > MAX_WINDOW.as_nanos()
                    || !nanos.is_multiple_of(1000)
                    || nanos * (max as u128) < 1000 * (burst as u128) * (window_us as u128)
                {
                    return Err(PolicyError::Block);
                }
                #[allow(clippy::cast_possible_truncation, reason = "at most MAX_WINDOW, checked above")]
                let block_us = (nanos / 1000) as u64;
                block_us
            }
        };
        let lease_us = match self.lease {
            Lease::Unset => 0,
            Lease::Off => Policy::NO_LEASE,
            Lease::Of(_) if !algorithm.spec().is_leasable => return Err(PolicyError::LeaseWithoutWindow),
            Lease::Of(lease) => match lease_micros(lease) {
                Some(micros) => micros,
                None => return Err(PolicyError::Lease),
            },
        };
        Ok(DerivedNumbers { window_us, sub_windows, burst, block_us, lease_us })
    }
}

/// The microseconds of a window of one length.
const fn window_micros(window: Duration) -> Result<u64, PolicyError> {
    let nanos = window.as_nanos();
    if nanos < MIN_WINDOW.as_nanos() || nanos > MAX_WINDOW.as_nanos() {
        return Err(PolicyError::Window);
    }
    if !nanos.is_multiple_of(1000) {
        return Err(PolicyError::WindowNotMicroseconds);
    }
    #[allow(clippy::cast_possible_truncation, reason = "at most MAX_WINDOW, checked above")]
    let micros = (nanos / 1000) as u64;
    Ok(micros)
}

/// The microseconds of a lease; `None` if it is out of its bounds.
pub(crate) const fn lease_micros(lease: Duration) -> Option<u32> {
    if lease.is_zero() || lease.as_nanos() > MAX_LEASE.as_nanos() || !lease.as_nanos().is_multiple_of(1000) {
        return None;
    }
    #[allow(clippy::cast_possible_truncation, reason = "at most MAX_LEASE")]
    let micros = lease.as_micros() as u32;
    Some(micros)
}

/// Numbers that follow from the settings.
struct DerivedNumbers {
    window_us: u64,
    sub_windows: u64,
    burst: u64,
    /// 0 for a limit that does not block.
    block_us: u64,
    lease_us: u32,
}
