//! The answer of one limit: public, and packed with an order.

use std::time::Duration;

use crate::clock::micros;

/// Answer of one limit to a request: admitted, or denied with the wait until it is admitted.
///
/// # Examples
///
/// ```
/// use ratelimit_core::{Decision, Outcome};
///
/// fn advice(outcome: &Outcome) -> String {
///     match outcome.decision() {
///         Decision::Denied { retry_after: Some(wait) } => format!("retry in {wait:?}"),
///         Decision::Denied { retry_after: None } => "the cost exceeds the limit".to_owned(),
///         Decision::Allowed => "go on".to_owned(),
///         _ => "denied".to_owned(),
///     }
/// }
/// # let denied = Decision::Denied { retry_after: None };
/// # assert_eq!(advice(&Outcome::new(10, denied)), "the cost exceeds the limit");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// The limit admits the request.
    Allowed,
    /// The limit denies the request.
    Denied {
        /// Smallest wait from the decision after which the limit admits the same request, if no other request is charged
        /// meanwhile; in whole microseconds, exact. `None` if no wait helps, because the cost exceeds the limit.
        retry_after: Option<Duration>,
    },
    /// A [concurrency limit](crate::Policy::concurrency) denies the request: all slots are held. It passes once one of them is freed,
    /// and no process knows when.
    Busy,
}

/// A [`Decision`] in 16 bytes. The order ranks limits: a later one binds the request for longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Allowed,
    /// Admitted, and due after a wait.
    AllowedAfterMicros(u64),
    RetryAfterMicros(u64),
    /// All slots are held; no process knows for how long.
    Busy,
    Never,
}

impl Verdict {
    /// Denies, for this number of microseconds or for ever.
    pub(crate) fn denied(retry_after_us: Option<u64>) -> Self {
        retry_after_us.map_or(Self::Never, Self::RetryAfterMicros)
    }

    pub(crate) fn from_decision(decision: Decision) -> Self {
        match decision {
            Decision::Allowed => Self::Allowed,
            Decision::Denied { retry_after } => Self::denied(retry_after.map(micros)),
            Decision::Busy => Self::Busy,
        }
    }

    pub(crate) const fn decision(self) -> Decision {
        match self {
            Self::Allowed | Self::AllowedAfterMicros(_) => Decision::Allowed,
            Self::RetryAfterMicros(micros) => {
                Decision::Denied { retry_after: Some(Duration::from_micros(micros)) }
            }
            Self::Busy => Decision::Busy,
            Self::Never => Decision::Denied { retry_after: None },
        }
    }
}
