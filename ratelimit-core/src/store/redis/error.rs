//! What an error of Redis says: about the connection, about how things are set up, and to whoever reads the log.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, RedisError};

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

/// What somebody has to do about it, if it does not pass by itself.
fn remedy(error: &RedisError, is_cluster: bool) -> Option<&'static str> {
    match error.code() {
        Some("NOAUTH") => return Some("it asks for a password; give one in the URL"),
        Some("WRONGPASS") => return Some("it does not take the user or the password of the URL"),
        Some("MOVED" | "ASK") if !is_cluster => {
            return Some("it is part of a cluster; begin the URL with `redis-cluster://`");
        }
        Some("NOPERM") => return Some(PERMISSIONS),
        _ => {}
    }
    if error.kind() == ErrorKind::AuthenticationFailed {
        return Some("it does not take the user or the password of the URL");
    }
    let known = [
        ("can't run this command", PERMISSIONS),
        ("no permissions to run", PERMISSIONS),
        ("DB index is out of range", "it has no database of the number in the URL"),
        ("SELECT is not allowed in cluster mode", "a cluster has no other database than 0"),
        ("cluster support disabled", "it is not a cluster; begin the URL with `redis://`"),
        ("unknown command", "it lacks a command that decisions need; use Redis 6.2, Valkey 7.2 or newer"),
        // Of a script, about a command that is missing or was renamed.
        (
            "Unknown Redis command",
            "it lacks a command that decisions need; use Redis 6.2, Valkey 7.2 or newer",
        ),
    ];
    known.iter().find(|(text, _)| says(error, text)).map(|(_, remedy)| *remedy)
}

const PERMISSIONS: &str = "its user may not run what decisions need; `ACL LOG` at the server names it, and the \
                           documentation lists all commands";

/// Whether the server's own words contain these.
fn says(error: &RedisError, words: &str) -> bool {
    error.detail().is_some_and(|text| text.contains(words)) || error.to_string().contains(words)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The error that a server's line is.
    fn error(line: &str) -> RedisError {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        value.extract_error().unwrap_err()
    }

    #[test]
    fn what_somebody_has_to_set_up_is_told_apart_from_what_passes_by_itself() {
        for (line, expected) in [
            ("NOAUTH Authentication required.", "a password"),
            ("WRONGPASS invalid username-password pair or user is disabled.", "the password"),
            ("NOPERM this user has no permissions to run the 'eval' command", "may not run"),
            (
                "ERR The user executing the script can't run this command or subcommand script: f",
                "may not run",
            ),
            ("ERR DB index is out of range", "no database"),
            ("ERR SELECT is not allowed in cluster mode", "other database"),
            ("ERR This instance has cluster support disabled", "redis://"),
            ("ERR unknown command 'EVALSHA', with args beginning with: ", "lacks a command"),
            ("ERR Unknown Redis command called from script script: f", "lacks a command"),
            ("MOVED 1 192.0.2.7:6379", "redis-cluster://"),
        ] {
            let told = unavailable(Arc::new(error(line)), false);
            let StoreError::Misconfigured { remedy, .. } = &told else { panic!("{line}: {told:?}") };
            assert!(remedy.contains(expected), "{line}: {told}");
            assert!(!told.is_transient());
        }
        for line in [
            "LOADING Redis is loading the dataset in memory",
            "READONLY You can't write against a read only replica.",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "CLUSTERDOWN The cluster is down",
        ] {
            let told = unavailable(Arc::new(error(line)), false);
            assert!(
                matches!(told, StoreError::Unavailable(Some(_))) && told.is_transient(),
                "{line}: {told:?}"
            );
        }
        let moved = unavailable(Arc::new(error("MOVED 1 192.0.2.7:6379")), true);
        assert!(matches!(moved, StoreError::Unavailable(_)), "{moved:?}");
    }

    #[test]
    fn the_address_of_another_node_is_not_shown() {
        for line in ["MOVED 1 192.0.2.7:6379", "ASK 1 192.0.2.7:6379"] {
            let told = unavailable(Arc::new(error(line)), true);
            let source = told.source().unwrap();
            let text = format!("{told} {told:?} {source} {source:?} {:?}", source.source());
            assert!(!text.contains("192.0.2.7"), "{text}");
            assert!(text.contains("another node"), "{text}");
        }
    }

    #[test]
    fn what_a_server_refuses_to_everybody_stops_requests_from_waiting() {
        for line in [
            "LOADING Redis is loading the dataset in memory",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "CLUSTERDOWN The cluster is down",
            "MOVED 1 192.0.2.7:6379",
            "ASK 1 192.0.2.7:6379",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "BUSY Redis is busy running a script.",
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
            "NOREPLICAS Not enough good replicas to write.",
            "NOPERM this user has no permissions to run the 'evalsha' command",
            "UNKILLABLE Sorry the script already executed write commands against the dataset.",
            "ERR The user executing the script can't run this command or subcommand script: f",
        ] {
            assert!(matches!(Fault::of(&error(line)), Fault::Refusal), "{line}");
        }
        for line in [
            "READONLY You can't write against a read only replica.",
            "NOAUTH Authentication required.",
            "WRONGPASS invalid username-password pair or user is disabled.",
        ] {
            assert!(matches!(Fault::of(&error(line)), Fault::Wrong), "{line}");
        }
    }

    #[test]
    fn an_error_about_one_request_says_nothing_about_the_connection() {
        for line in
            ["WRONGTYPE Operation against a key holding the wrong kind of value", "ERR user_script:1: x"]
        {
            assert!(matches!(Fault::of(&error(line)), Fault::None), "{line}");
        }
    }
}
