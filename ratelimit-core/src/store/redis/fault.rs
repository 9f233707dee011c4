//! Faults: what an error of the client or the server says about the connection, and what the caller is told.

use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, RedisError};

use crate::error::StoreError;

/// Why there is no answer; one failure may be that of many requests.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    Unavailable(Option<Arc<RedisError>>),
    Timeout(Duration),
    Refused(Arc<RedisError>),
    Protocol(&'static str),
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unavailable(None) => Self::Unavailable(None),
            Failure::Unavailable(Some(error)) => Self::Unavailable(Some(Box::new(error))),
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
            _ if error.detail().is_some_and(|text| text.contains("can't run this command")) => Self::Refusal,
            _ => Self::None,
        }
    }
}
