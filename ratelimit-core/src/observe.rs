//! One room for observation: what metrics, statistics and the log tell about decisions, calls and outages.
//!
//! A decision about a limit is classified once, in [`counted`]. Without the features `metrics` and `stats` the same names record
//! nothing, so that the code that is observed has no conditions.

pub(crate) mod counted;
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
