//! Errors of calls: what the caller gets, what they mean for the connection, and what a log may show.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, RedisError};

use super::remedy::{mentions, remedy};
use crate::error::StoreError;
use crate::store::Deadline;

/// Why a call has no reply. One error may be that of many requests, so it is cheap to clone.
#[derive(Clone, Debug)]
pub(super) enum CallError {
    /// There is no connection, or the circuit breaker is open.
    Unavailable,
    /// The connection or the server cannot serve.
    Connection { error: Arc<RedisError>, is_cluster: bool },
    /// There was no reply within this time.
    Timeout(Duration),
    /// The server rejected this call.
    Rejected(Arc<RedisError>),
    /// The reply does not have this expected shape.
    Protocol(&'static str),
}

impl Deadline {
    /// The error of a call that hit its deadline.
    pub(super) const fn timeout_error(self) -> CallError {
        CallError::Timeout(self.limit)
    }
}

impl From<CallError> for StoreError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Unavailable => Self::Unavailable { source: None },
            CallError::Connection { error, is_cluster } => unavailable(error, is_cluster),
            CallError::Timeout(after) => Self::timeout(after),
            CallError::Rejected(error) => Self::rejected(error),
            CallError::Protocol(expected) => Self::protocol(expected),
        }
    }
}

/// Effect of an error on the connection.
pub(super) enum ConnectionImpact {
    /// The connection is lost.
    Lost,
    /// Wrong server or wrong credentials: reconnect elsewhere; retrying here does not help.
    WrongServer,
    /// The server cannot serve at the moment.
    CannotServe,
    /// None: the error is about one call.
    None,
}

impl ConnectionImpact {
    pub(super) fn from_error(error: &RedisError) -> Self {
        if error.is_unrecoverable_error() || error.is_io_error() {
            return Self::Lost;
        }
        match error.code() {
            Some("READONLY" | "NOAUTH" | "WRONGPASS") => return Self::WrongServer,
            Some(
                "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "MOVED" | "ASK" | "TRYAGAIN" | "OOM" | "BUSY"
                | "MISCONF" | "NOREPLICAS" | "NOPERM" | "UNKILLABLE",
            ) => return Self::CannotServe,
            _ => {}
        }
        match error.kind() {
            ErrorKind::AuthenticationFailed => Self::WrongServer,
            ErrorKind::ClusterConnectionNotFound => Self::CannotServe,
            // Inside a script a missing permission has no code of its own.
            _ if mentions(error, "can't run this command") => Self::CannotServe,
            _ => Self::None,
        }
    }
}

/// The store's error for a server that cannot serve: misconfigured if there is a remedy, otherwise unavailable.
fn unavailable(error: Arc<RedisError>, is_cluster: bool) -> StoreError {
    match remedy(&error, is_cluster) {
        Some(remedy) => StoreError::misconfigured(remedy, RedactedError(error)),
        None => StoreError::unavailable(RedactedError(error)),
    }
}

/// An error of the client crate without the addresses of other nodes, so that it may be logged.
struct RedactedError(Arc<RedisError>);

impl fmt::Display for RedactedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.code() {
            Some(code @ ("MOVED" | "ASK")) => write!(f, "{code}: the key is on another node"),
            _ if self.names_a_node() => f.write_str("no connection to the node of the key"),
            _ => self.0.fmt(f),
        }
    }
}

impl RedactedError {
    fn names_a_node(&self) -> bool {
        matches!(self.0.code(), Some("MOVED" | "ASK"))
            || self.0.kind() == ErrorKind::ClusterConnectionNotFound
    }
}

impl fmt::Debug for RedactedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for RedactedError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        if self.names_a_node() { None } else { self.0.source() }
    }
}
