//! The same names without the feature `stats`: nothing is counted.

use crate::check::Check;
use crate::observe::counted::Counted;
use crate::observe::status::Percentiles;
use crate::policy::Policy;

#[derive(Debug)]
pub(crate) struct Stats;

#[allow(clippy::unused_self, reason = "as with the feature")]
impl Stats {
    pub(crate) const fn new() -> Self {
        Self
    }

    pub(crate) const fn record(&self, _: &Check<'_>, _: Counted, _: bool) {}

    pub(crate) const fn record_degraded(&self, _: &Policy) {}

    pub(crate) const fn limit(&self, _: &Policy) -> Self {
        Self
    }

    pub(crate) const fn hold(&self, _: u64, _: bool) {}
}

#[derive(Debug)]
pub(crate) struct Histogram;

#[allow(clippy::unused_self, reason = "as with the feature")]
impl Histogram {
    pub(crate) const fn new() -> Self {
        Self
    }

    pub(crate) const fn record(&self, _: u64) {}

    pub(crate) fn percentiles(&self) -> Percentiles {
        Percentiles::default()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Tally();

#[allow(clippy::unused_self, reason = "as with the feature")]
impl Tally {
    pub(crate) const fn add(&self, _: u64) {}

    pub(crate) const fn get(&self) -> u64 {
        0
    }
}
