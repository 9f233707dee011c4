//! The same names without the feature `metrics`: nothing is recorded, nor computed for it.

use std::time::Duration;

use crate::absent::absent;
use crate::check::Check;
use crate::error::StoreError;
use crate::observe::Counted;
use crate::outcome::Outcome;
use crate::policy::Policy;

absent! {
    pub(crate) struct Stopwatch {
        pub(crate) fn start() -> Self;
        pub(crate) fn decided(&self);
    }
}

absent! {
    pub(crate) struct FallbackCallers {
        pub(crate) fn new() -> Self;
        pub(crate) fn record(&self, _: impl FnOnce() -> usize);
    }
}

absent! {
    pub(crate) fn decided(_: &Policy, _: Counted, _: bool);
    pub(crate) fn held(_: &Policy, _: u64, _: bool);
    pub(crate) fn waits(_: &Policy, _: Duration);
    pub(crate) fn degraded(_: &[Check<'_>], _: Option<&[Outcome]>);
    pub(crate) fn failed(_: &StoreError);
    pub(crate) fn store_made();
    pub(crate) fn overrides_watched();
    pub(crate) fn overrides_reloaded(_: bool);
    pub(crate) fn overrides_current(_: bool);
    pub(crate) fn denial_cache_hit();
    pub(crate) fn connected();
    pub(crate) fn disconnected();
    pub(crate) fn open_ranges(_: impl Iterator);
    pub(crate) fn round_trip(_: Duration);
    pub(crate) fn batch(_: usize);
    pub(crate) fn leased(_: u64);
    pub(crate) fn lease_units_ended(_: [u64; 3]);
    pub(crate) fn lease_units_held(_: u64);
}
