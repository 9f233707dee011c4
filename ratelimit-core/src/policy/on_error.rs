//! Failure policies: what a limit does during an outage of the store.

/// Failure policy: what a limit does during an outage of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnError {
    /// Fallback: this process counts by itself, by the same algorithm, until the store is back.
    ///
    /// The store never learns these counts. So an outage admits at most `max` units more per caller and process, or a part
    /// of `max` if the [number of processes](crate::RateLimiterBuilder::instances) is known.
    #[default]
    Local,
    /// Fail closed: the check is an error, and `ratelimit-actix` responds with status 503.
    Deny,
    /// Fail open: every request passes, uncounted.
    Allow,
}
