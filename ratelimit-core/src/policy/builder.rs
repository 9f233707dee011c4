//! Building policies: defaults, and every check of the numbers. `settings` has what applications set.

mod settings;

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
            key: "key",
            name: None,
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
