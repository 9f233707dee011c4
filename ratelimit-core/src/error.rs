//! Errors of stores. A denial is an outcome, not an error.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Error of a store that could not decide.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no connection to the store, or it cannot serve at the moment, or the circuit breaker is open.
    #[error("the store cannot be reached")]
    Unavailable(#[source] Option<Box<dyn Error + Send + Sync>>),

    /// The store, or this application, is set up wrongly, which does not pass by itself: a password, permissions, a database
    /// that does not exist.
    #[error("the store is not set up for this application: {remedy}")]
    Misconfigured {
        /// Cause, and how to correct it.
        remedy: &'static str,
        /// Error of the store.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },

    /// The store did not reply in time. It is unknown whether the request was charged, so it must not be sent again.
    #[error("the store did not answer within {} ms", .after.as_millis())]
    Timeout {
        /// The deadline that passed.
        after: Duration,
    },

    /// The store replied with an error.
    #[error("the store refused the request")]
    Refused(#[source] Box<dyn Error + Send + Sync>),

    /// The store's reply does not have the expected shape.
    #[error("unexpected reply from the store: expected {expected}")]
    Protocol {
        /// Expected shape.
        expected: &'static str,
    },

    /// The state stored for a caller is corrupt, or was not written by this version. Only this caller is affected. The key
    /// expires within one window and one second.
    #[error(
        "corrupt state stored for a caller of policy `{policy}`; the key expires within one window and one second"
    )]
    ForeignState {
        /// Key of the policy.
        policy: String,
    },

    /// The group has more than [`MAX_GROUP`](crate::MAX_GROUP) limits.
    #[error("a group can have at most {} limits, not {size}", crate::check::MAX_GROUP)]
    GroupTooLarge {
        /// Number of limits of the group.
        size: usize,
    },
}

impl StoreError {
    /// Whether the error passes by itself: true for [`Unavailable`](Self::Unavailable), [`Timeout`](Self::Timeout) and
    /// [`ForeignState`](Self::ForeignState). A later check may succeed; the others need a change of the set-up or the code.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Timeout { .. } | Self::ForeignState { .. })
    }
}

/// An error and its causes on one line.
pub(crate) struct ErrorChain<'a>(pub(crate) &'a dyn Error);

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = self.0.to_string();
        f.write_str(&last)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // Some errors repeat their cause in their own text.
            if !last.ends_with(&text) {
                write!(f, ": {text}")?;
            }
            last = text;
            cause = error.source();
        }
        Ok(())
    }
}
