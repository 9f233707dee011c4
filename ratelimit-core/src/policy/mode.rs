//! What a limit does with a request that it does not admit: denies it, or only reports that; and what it does
//! during an outage of the store.

use super::named_values::named_values;

/// Whether a limit denies requests, or only reports what it would deny.
///
/// A shadow limit is judged and charged as if it were enforced: charged when the request fits and the
/// enforced limits of its group admit it, and not charged otherwise. It never denies a request and never
/// changes what the enforced limits of its group decide, also during an outage of the store.
/// [`Outcome::would_deny`](crate::Outcome::would_deny), a metric and a log line show what it would have
/// denied. So the effect of a limit is known before it is enforced.
///
/// A shadow limit has a count of its own, also beside an enforced limit with the same key, so a limit starts
/// with empty counts when it is enforced.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_core::{Mode, Policy};
///
/// static SEARCH: Policy =
///     Policy::builder("search").max(50).window(Duration::from_secs(60)).mode(Mode::Shadow).build();
///
/// assert_eq!("shadow".parse(), Ok(SEARCH.mode()));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// The limit denies requests that do not fit.
    #[default]
    Enforce,
    /// The limit admits every request, and reports what it would deny.
    Shadow,
}

named_values!(Mode, "mode": Enforce = "enforce", Shadow = "shadow");

/// Failure policy: what a limit does during an outage of the store.
///
/// An outage is every error of the store, such as a lost connection, a missed deadline, or an open circuit
/// breaker.
///
/// | variant | also called | a request during the outage | suits |
/// |---|---|---|---|
/// | [`Local`](Self::Local) | fallback | is decided by counts of this process | most limits |
/// | [`Deny`](Self::Deny) | fail closed | fails | limits that protect secrets or money, such as log-in attempts |
/// | [`Allow`](Self::Allow) | fail open | passes uncounted | limits whose absence does no harm |
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_core::{OnError, Policy};
///
/// static LOGIN: Policy =
///     Policy::builder("login").max(5).window(Duration::from_secs(900)).on_error(OnError::Deny).build();
///
/// assert_eq!("deny".parse(), Ok(LOGIN.on_error()));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnError {
    /// Fallback: this process counts by itself, by the same algorithm, until the store is back.
    ///
    /// The store never learns these counts. So an outage admits at most `max` units more per caller and
    /// process. If the [number of processes](crate::RateLimiterBuilder::instances) is known, each process
    /// admits its part of `max`, and a request that costs more than this part is denied.
    #[default]
    Local,
    /// Fail closed: the check is an error, and `ratelimit-actix` responds with status 503. An outage of the
    /// store stops every request under this limit.
    Deny,
    /// Fail open: every request passes, uncounted. An outage of the store removes this limit.
    Allow,
}

named_values!(OnError, "on_error": Local = "local", Deny = "deny", Allow = "allow");
