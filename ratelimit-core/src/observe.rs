//! One room for observation: what metrics, statistics and the log show of decisions, calls and outages.
//!
//! The observed code calls the methods of an [`Observer`] or a [`StoreObserver`]. A decision about a limit is
//! classified once, as [`Counted`].

pub(crate) mod log;
#[cfg(feature = "metrics")]
#[cfg_attr(
    not(all(feature = "redis", feature = "overrides")),
    allow(dead_code, reason = "what another feature leaves out records nothing")
)]
pub mod metrics;
#[cfg_attr(
    not(all(feature = "metrics", feature = "stats")),
    allow(
        unused_variables,
        clippy::missing_const_for_fn,
        clippy::needless_pass_by_value,
        reason = "without the features nothing is recorded"
    )
)]
#[allow(
    clippy::cast_precision_loss,
    clippy::unused_self,
    reason = "counts below 2^53, in metrics of the process"
)]
mod observer;
#[cfg(feature = "stats")]
#[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "only calls to a server are measured"))]
pub mod stats;
pub(crate) mod status;

#[cfg(feature = "redis")]
pub(crate) use self::observer::store::{LeaseObserver, StoreObserver};
pub(crate) use self::observer::{Observer, Stopwatch};
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
