//! Modes: whether a limit denies requests, or only reports what it would deny.

use super::named_values::named_values;

/// Whether a limit denies requests, or only reports what it would deny.
///
/// A shadow limit is judged and charged as if it were enforced: charged when the request fits and the enforced limits of its
/// group admit it, and not charged otherwise. It never denies a request and never changes what the enforced limits of its
/// group decide, also during an outage of the store. [`Outcome::would_deny`](crate::Outcome::would_deny), a metric and a log
/// line tell what it would have denied. So the effect of a limit is known before it is enforced.
///
/// A shadow limit has a count of its own, also beside an enforced limit with the same key, so a limit starts with empty counts when
/// it is enforced.
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
