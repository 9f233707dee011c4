//! What a limit does during an outage of its store.

/// What a limit does when the store cannot answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnError {
    /// This process counts by itself, by the same algorithm, until the store is back. What it has counted is not handed
    /// on, so an outage lets at most one more `max` per caller and process pass; [divided] among the processes when
    /// their number is known.
    ///
    /// [divided]: crate::RateLimiterBuilder::instances
    #[default]
    Local,
    /// Nobody passes: the check is an error, and a request is answered with 503.
    Deny,
    /// Everybody passes, uncounted.
    Allow,
}
