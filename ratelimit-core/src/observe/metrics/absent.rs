//! The same names without the feature `metrics`: nothing is recorded, nor computed for it.

use std::time::Duration;

use crate::check::Check;
use crate::error::StoreError;
use crate::observe::counted::Counted;
use crate::outcome::Outcome;
use crate::policy::Policy;

pub(crate) struct Stopwatch;

#[allow(clippy::unused_self, reason = "as with the feature")]
impl Stopwatch {
    pub(crate) const fn start() -> Self {
        Self
    }

    pub(crate) const fn decided(&self) {}
}

#[derive(Debug)]
pub(crate) struct FallbackCallers;

#[allow(clippy::unused_self, reason = "as with the feature")]
impl FallbackCallers {
    pub(crate) const fn new() -> Self {
        Self
    }

    pub(crate) fn record(&self, _: impl FnOnce() -> usize) {}
}

pub(crate) const fn decided(_: &Policy, _: Counted, _: bool) {}
pub(crate) const fn held(_: &Policy, _: u64, _: bool) {}
pub(crate) const fn waits(_: &Policy, _: Duration) {}
pub(crate) const fn degraded(_: &[Check<'_>], _: Option<&[Outcome]>) {}
pub(crate) const fn failed(_: &StoreError) {}
pub(crate) const fn overrides_reloaded(_: bool) {}
pub(crate) const fn overrides_current(_: bool) {}
pub(crate) const fn denial_cache_hit() {}
pub(crate) const fn connected() {}
pub(crate) const fn disconnected() {}
pub(crate) fn open_ranges(_: impl Iterator) {}
pub(crate) const fn round_trip(_: Duration) {}
pub(crate) const fn batch(_: usize) {}
pub(crate) const fn leased(_: u64) {}
pub(crate) const fn lease_units_ended(_: [u64; 3]) {}
pub(crate) const fn lease_units_held(_: u64) {}
