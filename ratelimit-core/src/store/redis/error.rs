//! What an error of Redis says: about the connection, about how things are set up, and to whoever reads the log.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, RedisError};

use super::remedy::{remedy, says};
use crate::error::StoreError;

/// Why there is no answer; one failure may be that of many requests.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// There is no connection, or requests are not sent for a while.
    Unavailable,
    /// The server or the client said so; true of a cluster.
    Fault(Arc<RedisError>, bool),
    /// It did not come within this time.
    Timeout(Duration),
    /// The server refused this request.
    Refused(Arc<RedisError>),
    /// It was not what was expected.
    Protocol(&'static str),
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unavailable => Self::Unavailable(None),
            Failure::Fault(error, is_cluster) => unavailable(error, is_cluster),
            Failure::Timeout(after) => Self::Timeout { after },
            Failure::Refused(error) => Self::Refused(Box::new(error)),
            Failure::Protocol(expected) => Self::Protocol { expected },
        }
    }
}

/// What an error says about the connection.
pub(super) enum Fault {
    /// It is gone.
    Gone,
    /// It leads to a server that cannot serve and will not by itself, or not as who we are.
    Wrong,
    /// The server cannot serve at the moment.
    Refusal,
    /// Nothing: it is about the request.
    None,
}

impl Fault {
    pub(super) fn of(error: &RedisError) -> Self {
        if error.is_unrecoverable_error() || error.is_io_error() {
            return Self::Gone;
        }
        match error.code() {
            Some("READONLY" | "NOAUTH" | "WRONGPASS") => return Self::Wrong,
            Some(
                "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "MOVED" | "ASK" | "TRYAGAIN" | "OOM" | "BUSY"
                | "MISCONF" | "NOREPLICAS" | "NOPERM" | "UNKILLABLE",
            ) => return Self::Refusal,
            _ => {}
        }
        match error.kind() {
            ErrorKind::AuthenticationFailed => Self::Wrong,
            ErrorKind::ClusterConnectionNotFound => Self::Refusal,
            // Inside a script a missing permission has no code of its own.
            _ if says(error, "can't run this command") => Self::Refusal,
            _ => Self::None,
        }
    }
}

/// What the caller of the store is told: that it is not set up as it must be, or only that it cannot be reached.
fn unavailable(error: Arc<RedisError>, is_cluster: bool) -> StoreError {
    match remedy(&error, is_cluster) {
        Some(remedy) => StoreError::Misconfigured { remedy, source: Box::new(Reason(error)) },
        None => StoreError::Unavailable(Some(Box::new(Reason(error)))),
    }
}

/// An error of the client crate, as it may be shown: without the address of another server.
struct Reason(Arc<RedisError>);

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.code() {
            Some(code @ ("MOVED" | "ASK")) => write!(f, "{code}: the key is on another node"),
            _ if self.names_a_node() => f.write_str("no connection to the node of the key"),
            _ => self.0.fmt(f),
        }
    }
}

impl Reason {
    fn names_a_node(&self) -> bool {
        matches!(self.0.code(), Some("MOVED" | "ASK"))
            || self.0.kind() == ErrorKind::ClusterConnectionNotFound
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for Reason {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        if self.names_a_node() { None } else { self.0.source() }
    }
}
