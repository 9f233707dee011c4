//! The same names without the feature `stats`: nothing is counted.

use crate::absent::absent;
use crate::check::Check;
use crate::observe::Counted;
use crate::observe::status::Percentiles;
use crate::policy::Policy;

absent! {
    pub(crate) struct Stats {
        pub(crate) fn new() -> Self;
        pub(crate) fn record(&self, _: &Check<'_>, _: Counted, _: bool);
        pub(crate) fn record_degraded(&self, _: &Policy, _: bool);
        pub(crate) fn limit(&self, _: &Policy) -> Self;
        pub(crate) fn hold(&self, _: u64, _: bool);
    }
}

absent! {
    pub(crate) struct Histogram {
        pub(crate) fn new() -> Self;
        pub(crate) fn record(&self, _: u64);
        pub(crate) fn percentiles(&self) -> Percentiles;
    }
}

absent! {
    pub(crate) struct Tally {
        pub(crate) fn add(&self, _: u64);
        pub(crate) fn get(&self) -> u64;
    }
}
