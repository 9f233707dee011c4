//! Errors of building a Redis store.

use std::error::Error;
use std::fmt;

/// Error of [`RedisStoreBuilder::build`](super::RedisStoreBuilder::build).
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RedisConfigError {
    /// The URL of the Redis server is invalid. The error does not repeat the URL, which may hold a password.
    #[error("invalid Redis URL: {problem}; expected redis://[user:password@]host[:port][/db]")]
    #[non_exhaustive]
    Url {
        /// Problem of the URL.
        problem: String,
    },

    /// The key prefix is not 1 to 32 letters, digits, `-`, `_` or `.`.
    #[error("the key prefix must be 1 to 32 letters, digits, `-`, `_` or `.`")]
    Prefix,

    /// A setting of the store is out of bounds.
    #[error("`{setting}` must be {expected}")]
    #[non_exhaustive]
    Setting {
        /// Name of the builder's method.
        setting: &'static str,
        /// Allowed values.
        expected: &'static str,
    },

    /// The thread of the Redis connection could not be started.
    #[error("cannot start the thread for the Redis connection")]
    Thread(#[source] std::io::Error),
}

/// As `Display`, with the source: this is what a `main` prints that returns the error.
impl fmt::Debug for RedisConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        self.source().map_or(Ok(()), |source| write!(f, ": {source}"))
    }
}
