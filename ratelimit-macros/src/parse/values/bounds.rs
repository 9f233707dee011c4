//! Bounds and defaults of the arguments. They are those of `ratelimit-core`, on which this crate does not
//! depend: a test of the workspace compares both, so this file uses nothing of this crate.

use std::ops::RangeInclusive;

/// Bounds of `max`, `burst` and `cost`.
pub(crate) const UNITS: RangeInclusive<u64> = 1..=1_000_000_000_000;

/// Bounds of `sub_windows`.
pub(crate) const SUB_WINDOWS: RangeInclusive<u64> = 1..=60;

/// Longest lease, in microseconds.
pub(crate) const MAX_LEASE_MICROS: u64 = 10_000_000;

/// Maximum number of limits in a group.
pub(crate) const MAX_GROUP: usize = 64;

/// Maximum length of a key or name, in bytes.
pub(crate) const MAX_NAME: usize = 128;

/// Units per window by default.
pub(crate) const DEFAULT_MAX: u64 = 100;

/// Default window, in microseconds.
pub(crate) const DEFAULT_MICROS: u64 = 60_000_000;

/// Whether this can be a key or a name.
pub(crate) fn is_name(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.len()) && text.chars().all(is_name_char)
}

/// Whether a key or a name may have this character.
pub(crate) fn is_name_char(c: char) -> bool {
    c.is_ascii_graphic() && !matches!(c, '{' | '}' | '"' | '\\')
}
