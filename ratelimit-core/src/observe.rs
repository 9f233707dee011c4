//! One room for observation: what metrics, statistics and the log tell about decisions, calls and outages.
//!
//! A decision about a limit is classified once, as [`Counted`]. Without the features `metrics` and `stats` the same names record
//! nothing, so that the code that is observed has no conditions.

pub(crate) mod log;
#[cfg_attr(
    not(feature = "metrics"),
    path = "observe/metrics/absent.rs",
    allow(unreachable_pub, reason = "public with the feature")
)]
#[cfg_attr(
    not(all(feature = "redis", feature = "overrides")),
    allow(dead_code, reason = "what another feature leaves out records nothing")
)]
pub mod metrics;
pub(crate) mod report;
#[cfg_attr(
    not(feature = "stats"),
    path = "observe/stats/absent.rs",
    allow(unreachable_pub, reason = "public with the feature")
)]
#[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "only calls to a server are measured"))]
pub mod stats;
pub(crate) mod status;

#[cfg(feature = "redis")]
pub(crate) mod calls;

use crate::outcome::Outcome;

/// How a limit was decided. Each decision about a limit is counted as one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// The request was admitted.
    Admitted,
    /// The limit passed, but another limit of the group denied, so that nothing was charged.
    Passed,
    Denied,
    /// A shadow limit that would have denied.
    WouldDeny,
}

impl Counted {
    /// `is_admitted` says whether the whole group was admitted.
    #[inline]
    pub(crate) fn of(outcome: &Outcome, is_admitted: bool) -> Self {
        match (outcome.is_allowed(), is_admitted) {
            (false, _) => Self::Denied,
            (true, _) if outcome.would_deny() => Self::WouldDeny,
            (true, true) => Self::Admitted,
            (true, false) => Self::Passed,
        }
    }
}
