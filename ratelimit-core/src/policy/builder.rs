//! Building policies: defaults, setters and every check of the numbers.

use std::borrow::Cow;
use std::time::Duration;

use super::name::is_name;
use super::state_id::state_id;
use super::{Algorithm, MAX_SUB_WINDOWS, MAX_UNITS, MAX_WINDOW, MIN_WINDOW, OnError, Policy, PolicyError};

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

    /// Starts a policy of 100 units per 60 s whose counts are stored under `key`.
    ///
    /// Policies with the same key, algorithm, window and sub-windows share their counts; for token buckets also `max` and
    /// burst must be the same.
    pub const fn builder(key: &'static str) -> PolicyBuilder {
        PolicyBuilder {
            key,
            name: None,
            algorithm: Algorithm::SlidingWindowCounter,
            max: 100,
            window: Duration::from_secs(60),
            sub_windows: None,
            burst: None,
            on_error: OnError::Local,
        }
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
    window: Duration,
    sub_windows: Option<u64>,
    burst: Option<u64>,
    on_error: OnError,
}

impl PolicyBuilder {
    /// Units allowed per window, from 1 to [`MAX_UNITS`]; for a token bucket, the units refilled per window. By default 100.
    pub const fn max(mut self, max: u64) -> Self {
        self.max = max;
        self
    }

    /// Length of the window, from [`MIN_WINDOW`] to [`MAX_WINDOW`], in whole microseconds. By default 60 s.
    pub const fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Algorithm by which units are counted. Another algorithm starts new counts; see [`Algorithm`] for how to choose.
    pub const fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// Number of parts into which a sliding window counter divides its window, from 1 to [`MAX_SUB_WINDOWS`]; by default 1.
    ///
    /// With 1 it weighs two whole windows; with more it comes nearer to the exact log. The window must be a whole multiple
    /// of this number, in microseconds.
    pub const fn sub_windows(mut self, sub_windows: u64) -> Self {
        self.sub_windows = Some(sub_windows);
        self
    }

    /// Units that a full token bucket holds, from 1 to [`MAX_UNITS`]; by default `max`.
    pub const fn burst(mut self, burst: u64) -> Self {
        self.burst = Some(burst);
        self
    }

    /// Failure policy for an outage of the store: count in this process (the default), fail closed, or fail open.
    pub const fn on_error(mut self, on_error: OnError) -> Self {
        self.on_error = on_error;
        self
    }

    /// Name of the policy in headers and metrics; by default its key. Policies with different names may share a key.
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

    const fn policy(self, Numbers { window_us, sub_windows, burst }: Numbers) -> Policy {
        let Self { key, algorithm, max, on_error, .. } = self;
        let name = match self.name {
            Some(name) => Some(Cow::Borrowed(name)),
            None => None,
        };
        let state_id = state_id(key, algorithm, max, window_us, sub_windows, burst);
        Policy {
            key: Cow::Borrowed(key),
            name,
            algorithm,
            max,
            window_us,
            sub_windows,
            burst,
            on_error,
            state_id,
        }
    }

    /// Checks all bounds: the combinations of numbers that every algorithm can compute exactly.
    const fn checked(&self) -> Result<Numbers, PolicyError> {
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
        let nanos = self.window.as_nanos();
        if nanos < MIN_WINDOW.as_nanos() || nanos > MAX_WINDOW.as_nanos() {
            return Err(PolicyError::Window);
        }
        if !nanos.is_multiple_of(1000) {
            return Err(PolicyError::WindowNotMicroseconds);
        }
        #[allow(clippy::cast_possible_truncation, reason = "at most MAX_WINDOW, checked above")]
        let window_us = (nanos / 1000) as u64;
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
        if (burst as u128) * (window_us as u128) > MAX_WINDOW.as_micros() * (max as u128) {
            return Err(PolicyError::Refill);
        }
        Ok(Numbers { window_us, sub_windows, burst })
    }
}

/// Numbers that follow from the settings.
struct Numbers {
    window_us: u64,
    sub_windows: u64,
    burst: u64,
}
