//! What can go wrong when a store is asked. A denial is not among it.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// A store could not decide.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no connection to the store.
    #[error("the store cannot be reached")]
    Unavailable(#[source] Option<Box<dyn Error + Send + Sync>>),

    /// The store refuses because of how it, or this application, is set up, which does not change by itself: a password,
    /// permissions, a database that does not exist.
    #[error("the store is not set up for this application: {remedy}")]
    Misconfigured {
        /// What is wrong, and what to do about it.
        remedy: &'static str,
        /// What the store said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },

    /// The store did not answer in time. Whether it charged the request is unknown, so it must not be asked again.
    #[error("the store did not answer within {} ms", .after.as_millis())]
    Timeout {
        /// The deadline that passed.
        after: Duration,
    },

    /// The store answered with an error.
    #[error("the store refused the request")]
    Refused(#[source] Box<dyn Error + Send + Sync>),

    /// The store's answer has not the expected shape.
    #[error("unexpected reply from the store: expected {expected}")]
    Protocol {
        /// What was expected.
        expected: &'static str,
    },

    /// What is stored for this caller was not written by this version. It expires after one window and
    /// a second at the latest.
    #[error(
        "the value stored for a caller of policy `{policy}` is not one of ours; it expires after one window"
    )]
    ForeignState {
        /// Key of the policy.
        policy: String,
    },

    /// The group has more limits than [`MAX_GROUP`](crate::MAX_GROUP).
    #[error("a group can have at most {} limits, not {size}", crate::check::MAX_GROUP)]
    GroupTooLarge {
        /// How many it has.
        size: usize,
    },
}

impl StoreError {
    /// Whether the same question may get an answer later, without anybody changing anything.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Timeout { .. } | Self::ForeignState { .. })
    }
}

/// A limiter that cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The URL of the Redis server is not one. The URL itself is not repeated, as it may hold a password.
    #[error("invalid Redis URL: {problem}; expected redis://[user:password@]host[:port][/db]")]
    RedisUrl {
        /// What is wrong with it.
        problem: String,
    },

    /// The host of the Redis URL has no address.
    #[error("the Redis host `{host}` does not resolve")]
    RedisHost {
        /// The host.
        host: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },

    /// The key prefix has a character that is not allowed.
    #[error("the key prefix must be 1 to 32 letters, digits, `-`, `_` or `.`")]
    Prefix,

    /// A setting of the store is out of its bounds.
    #[error("`{setting}` must be {expected}")]
    Setting {
        /// The builder's method.
        setting: &'static str,
        /// What it takes.
        expected: &'static str,
    },

    /// The thread that drives the connection could not be started.
    #[error("cannot start the thread for the Redis connection")]
    Thread(#[source] std::io::Error),
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
            // Some errors show their cause in their own text.
            if !last.ends_with(&text) {
                write!(f, ": {text}")?;
            }
            last = text;
            cause = error.source();
        }
        Ok(())
    }
}
