//! The one judge of which settings go together: makes the numbers of a policy of them, and settings of
//! numbers.

use std::time::Duration;

use super::settings::Settings;
use super::value::{LimitWindow, Switch};
use super::{Algorithm, Calendar, MAX_WINDOW, MIN_WINDOW, Mode, OnError, PolicyError};

/// Largest `max`, `burst` and cost: 10^12.
///
/// With windows of at most [`MAX_WINDOW`], every product that an algorithm forms can be divided exactly, both
/// in Rust and in the 53-bit integers of Lua; see `lua/README.md`.
pub const MAX_UNITS: u64 = 1_000_000_000_000;

/// Largest number of sub-windows of a sliding window counter: 60.
pub const MAX_SUB_WINDOWS: u64 = 60;

/// Time for which the slots of a concurrency limit count after the last message of their process: 10 s, in
/// microseconds.
pub(crate) const HOLD_US: u64 = 10_000_000;

/// Longest lease: 10 s.
pub const MAX_LEASE: Duration = Duration::from_secs(10);

/// Units per window of a policy without a `max`.
const DEFAULT_MAX: u64 = 100;

/// The window of a policy without one: 60 s, in microseconds.
const DEFAULT_WINDOW_US: u64 = 60_000_000;

/// Numbers that every algorithm can compute with exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PolicyNumbers {
    pub(super) algorithm: Algorithm,
    pub(super) max: u64,
    /// For a calendar window the longest one.
    pub(super) window_us: u64,
    pub(super) calendar: Option<Calendar>,
    pub(super) sub_windows: u64,
    pub(super) burst: u64,
    pub(super) on_error: OnError,
    /// 0 for a limit that does not block.
    pub(super) block_us: u64,
    pub(super) mode: Mode,
    /// 0 for a limit without a lease.
    pub(super) lease_us: u32,
}

impl Settings {
    /// Checks all bounds, and which numbers go together. Defaults stand for what is not set.
    pub(super) const fn judged(&self) -> Result<PolicyNumbers, PolicyError> {
        let Self { max, window, algorithm, sub_windows, burst, block, mode, on_error, lease } = *self;
        let max = if let Some(max) = max { max } else { DEFAULT_MAX };
        let algorithm =
            if let Some(algorithm) = algorithm { algorithm } else { Algorithm::SlidingWindowCounter };
        if max < 1 || max > MAX_UNITS {
            return Err(PolicyError::Max);
        }
        let has_time = window.is_some() || lease.is_some() || matches!(block, Some(Switch::On(_)));
        if algorithm.holds_slots() && has_time {
            return Err(PolicyError::OnlyForRates);
        }
        let (window_us, calendar) = match window {
            Some(LimitWindow::Calendar(calendar)) if !calendar.has_anchor() => {
                return Err(PolicyError::Anchor);
            }
            Some(LimitWindow::Calendar(_)) if !matches!(algorithm, Algorithm::FixedWindow) => {
                return Err(PolicyError::CalendarAlgorithm);
            }
            Some(LimitWindow::Calendar(calendar)) => (calendar.longest_us(), Some(calendar)),
            Some(LimitWindow::Length(length)) => match window_micros(length) {
                Ok(micros) => (micros, None),
                Err(error) => return Err(error),
            },
            None => (if algorithm.holds_slots() { HOLD_US } else { DEFAULT_WINDOW_US }, None),
        };
        let sub_windows = match sub_windows {
            None => 1,
            Some(_) if !algorithm.has_sub_windows() => return Err(PolicyError::SubWindowsWithoutCounter),
            Some(n) if n < 1 || n > MAX_SUB_WINDOWS => return Err(PolicyError::SubWindows),
            Some(n) if !window_us.is_multiple_of(n) => return Err(PolicyError::SubWindowsNotWhole),
            Some(n) => n,
        };
        let burst = match burst {
            None => max,
            Some(_) if !algorithm.has_burst() => return Err(PolicyError::BurstWithoutTokenBucket),
            Some(n) if n < 1 || n > MAX_UNITS => return Err(PolicyError::Burst),
            Some(n) => n,
        };
        // Full refill time, times max, in microseconds.
        let refill = (burst as u128) * (window_us as u128);
        if calendar.is_none() && refill > MAX_WINDOW.as_micros() * (max as u128) {
            return Err(PolicyError::Refill);
        }
        let block_us = match block {
            None | Some(Switch::Off) => 0,
            Some(Switch::On(_)) if calendar.is_some() => return Err(PolicyError::CalendarBlock),
            Some(Switch::On(block)) => match whole_micros(block) {
                Some(micros) if micros >= window_us && (micros as u128) * (max as u128) >= refill => micros,
                _ => return Err(PolicyError::Block),
            },
        };
        let lease_us = match lease {
            None => 0,
            Some(_) if !algorithm.spec().is_leasable => return Err(PolicyError::LeaseWithoutWindow),
            Some(lease) => match lease_micros(lease) {
                Some(micros) => micros,
                None => return Err(PolicyError::Lease),
            },
        };
        // Overrides know which limits are off.
        let mode = if let Some(Switch::On(mode)) = mode { mode } else { Mode::Enforce };
        let on_error = if let Some(on_error) = on_error { on_error } else { OnError::Local };
        let numbers = PolicyNumbers {
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
        };
        Ok(numbers)
    }
}

impl PolicyNumbers {
    /// The settings that make these numbers, with all that apply.
    pub(super) const fn settings(&self) -> Settings {
        let Self {
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
        } = *self;
        Settings {
            max: Some(max),
            window: match calendar {
                Some(calendar) => Some(LimitWindow::Calendar(calendar)),
                None if algorithm.holds_slots() => None,
                None => Some(LimitWindow::Length(Duration::from_micros(window_us))),
            },
            algorithm: Some(algorithm),
            sub_windows: if algorithm.has_sub_windows() { Some(sub_windows) } else { None },
            burst: if algorithm.has_burst() { Some(burst) } else { None },
            block: if block_us == 0 { None } else { Some(Switch::On(Duration::from_micros(block_us))) },
            mode: Some(Switch::On(mode)),
            on_error: Some(on_error),
            lease: if lease_us == 0 { None } else { Some(Duration::from_micros(lease_us as u64)) },
        }
    }
}

/// The microseconds of a window of one length.
const fn window_micros(window: Duration) -> Result<u64, PolicyError> {
    match whole_micros(window) {
        Some(micros) if micros as u128 >= MIN_WINDOW.as_micros() => Ok(micros),
        None if window.as_nanos() > MIN_WINDOW.as_nanos() && window.as_nanos() < MAX_WINDOW.as_nanos() => {
            Err(PolicyError::WindowNotMicroseconds)
        }
        _ => Err(PolicyError::Window),
    }
}

/// The microseconds of a time; `None` above [`MAX_WINDOW`], and for a fraction of one.
const fn whole_micros(time: Duration) -> Option<u64> {
    if time.as_secs() > MAX_WINDOW.as_secs() || !time.subsec_nanos().is_multiple_of(1000) {
        return None;
    }
    let micros = time.as_secs() * 1_000_000 + time.subsec_micros() as u64;
    if micros as u128 > MAX_WINDOW.as_micros() { None } else { Some(micros) }
}

/// The microseconds of a lease; `None` if it is out of its bounds.
const fn lease_micros(lease: Duration) -> Option<u32> {
    match whole_micros(lease) {
        Some(micros) if micros > 0 && lease.as_nanos() <= MAX_LEASE.as_nanos() => {
            #[allow(clippy::cast_possible_truncation, reason = "at most MAX_LEASE")]
            let micros = micros as u32;
            Some(micros)
        }
        _ => None,
    }
}
