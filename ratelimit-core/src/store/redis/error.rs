//! Errors of the builder's settings, and errors of calls: their effect on the connection, and what to change
//! in the set-up.

#[cfg(test)]
pub(super) mod tests;

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, RedisError};

use crate::error::StoreError;
use crate::store::Deadline;

/// Error of [`RedisStoreBuilder::build`](super::RedisStoreBuilder::build).
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RedisConfigError {
    /// The URL of the Redis server is invalid. The error does not repeat the URL, which may contain a
    /// password.
    #[error("invalid Redis URL: {problem}; expected redis://[user:password@]host[:port][/db]")]
    #[non_exhaustive]
    Url {
        /// Problem of the URL.
        problem: String,
    },

    /// The key prefix is not 1 to 64 letters, digits, `-`, `_` or `.`.
    #[error("the key prefix must be 1 to 64 letters, digits, `-`, `_` or `.`")]
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

    /// The URL stands for TLS, and there is no cryptography for it.
    #[cfg(feature = "redis-tls-no-provider")]
    #[error(
        "TLS needs a provider of cryptography: call `rustls::crypto::CryptoProvider::install_default` before \
         the store is built, or turn on the feature `redis-tls`"
    )]
    NoCryptoProvider,

    /// A file of certificates or of a key cannot be read.
    #[cfg(feature = "redis-tls-no-provider")]
    #[error("cannot read `{}`", path.display())]
    #[non_exhaustive]
    File {
        /// Path that was set in the builder.
        path: std::path::PathBuf,
        /// Why it cannot be read.
        source: std::io::Error,
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

/// The first and the last of some hash slots.
pub(super) type HashSlots = (u16, u16);

/// All hash slots of a cluster.
pub(super) const ALL_SLOTS: HashSlots = (0, 16_383);

/// Why a call has no reply. Many requests may share an error, so it is cheap to clone.
#[derive(Clone, Debug)]
pub(super) enum CallError {
    /// There is no connection, or the circuit breaker is open.
    Unavailable,
    /// The connection or the server cannot serve.
    Connection {
        error: Arc<RedisError>,
        /// In a cluster, hash slots of the node that the error is about; all if it is about no single node.
        slots: Option<HashSlots>,
    },
    /// There was no reply within this time.
    Timeout(Duration),
    /// The server rejected this call.
    Rejected(Arc<RedisError>),
    /// The reply does not have this expected shape.
    Protocol(&'static str),
    /// A charge was not refunded, because later turns are not due.
    TurnsNotDue,
}

impl Deadline {
    /// The error of a call that hit its deadline.
    pub(super) const fn timeout_error(self) -> CallError {
        CallError::Timeout(self.timeout())
    }
}

impl From<CallError> for StoreError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Unavailable => Self::Unavailable { source: None },
            CallError::Connection { error, slots } => unavailable(error, slots),
            CallError::Timeout(after) => Self::timeout(after),
            CallError::Rejected(error) => Self::rejected(error),
            CallError::Protocol(expected) => Self::protocol(expected),
            CallError::TurnsNotDue => Self::TurnsNotDue,
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
    /// Unknown: the error may be about one call, or about a server that fails all calls. So several errors
    /// without a reply between them are a reason to reconnect.
    Unknown,
    /// None: the error is about one key.
    None,
}

impl ConnectionImpact {
    pub(super) fn from_error(error: &RedisError) -> Self {
        if is_lost(error) {
            return Self::Lost;
        }
        match meaning(error) {
            Some("READONLY" | "NOAUTH" | "WRONGPASS") => return Self::WrongServer,
            Some(
                "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "MOVED" | "ASK" | "TRYAGAIN" | "OOM" | "BUSY"
                | "MISCONF" | "NOREPLICAS" | "NOPERM" | "UNKILLABLE" | "CROSSSLOT",
            ) => return Self::CannotServe,
            Some("WRONGTYPE") => return Self::None,
            _ => {}
        }
        match error.kind() {
            ErrorKind::AuthenticationFailed => Self::WrongServer,
            ErrorKind::ClusterConnectionNotFound => Self::CannotServe,
            _ => Self::Unknown,
        }
    }
}

/// The code of the server's error, also if the error quotes it.
///
/// Before version 7 of Redis, an error inside a script has no code of its own and quotes the code of the
/// command, here `READONLY`: `ERR Error running script (call to f_5e..): @user_script:7: @user_script: 7:
/// -READONLY You can't write ..`. If the script returns the error, it is `@user_script: 7: -READONLY You
/// can't write ..`. There, and in version 7.0, the error for a missing permission has no code, only words.
///
/// No client can write such a text: callers are digests in keys and arguments, which only an error about an
/// unknown command quotes.
pub(super) fn meaning(error: &RedisError) -> Option<&str> {
    let code = error.code()?;
    if code != "ERR" && !code.starts_with('@') {
        return Some(code);
    }
    let text = error.detail().unwrap_or_default();
    let quoted = text.split(": -").skip(1).find_map(|quoted| {
        let (code, _) = quoted.split_once(' ')?;
        code.bytes().all(|byte| byte.is_ascii_uppercase()).then_some(code)
    });
    let forbids = FORBIDDEN.iter().any(|words| text.contains(words));
    quoted.or(forbids.then_some("NOPERM")).or(Some(code))
}

/// Texts of an error inside a script whose user lacks a permission, if it has no code.
const FORBIDDEN: [&str; 2] = ["can't run this command", "can't access at least one of the keys"];

/// Whether an error says that the connection is lost.
pub(super) fn is_lost(error: &RedisError) -> bool {
    error.is_unrecoverable_error() || error.is_io_error()
}

/// Whether a server says that its user may not run a command, or that it has no such command.
pub(super) fn lacks_command(error: &RedisError) -> bool {
    meaning(error) == Some("NOPERM") || mentions(error, "unknown command")
}

/// The store's error for a server that cannot serve: misconfigured if there is a remedy, otherwise
/// unavailable.
fn unavailable(error: Arc<RedisError>, slots: Option<HashSlots>) -> StoreError {
    let source = RedactedError { slots: slots.filter(|slots| *slots != ALL_SLOTS), error };
    match remedy(&source.error, slots.is_some()) {
        Some(remedy) => StoreError::misconfigured(remedy, source),
        None => StoreError::unavailable(source),
    }
}

/// What to change in the set-up; `None` for an error that passes by itself.
fn remedy(error: &RedisError, is_cluster: bool) -> Option<&'static str> {
    match meaning(error) {
        Some("NOAUTH") => return Some("it requires a password; give one in the URL"),
        Some("WRONGPASS") => return Some(CREDENTIALS),
        Some("MOVED" | "ASK" | "CROSSSLOT") if !is_cluster => return Some(SHARDED),
        Some("NOPERM") => return Some(PERMISSIONS),
        _ => {}
    }
    // The client crate may quote an error in another, as it does for a cluster.
    let known = [
        (SENTINEL_CREDENTIALS, "its sentinel does not take the user or the password of the URL"),
        ("does not point to a sentinel", "it is not a sentinel; give the ports of the sentinels in the URL"),
        ("Password authentication failed", CREDENTIALS),
        ("no permissions to run", PERMISSIONS),
        ("DB index is out of range", "it has no database of the number in the URL"),
        ("SELECT is not allowed in cluster mode", "this cluster has no other database than 0"),
        ("cluster support disabled", "it is not a cluster; begin the URL with `redis://`"),
        (
            "protected mode",
            "it takes clients of its own machine only; give it a password, or see its own words",
        ),
        (SEVERAL_SERVERS, SHARDED),
        (SPEAKS_TLS, "it expects TLS; begin the URL with `rediss`"),
        // From rustls.
        ("invalid peer certificate", SERVER_CERTIFICATE),
        ("received fatal alert: HandshakeFailure", CLIENT_CERTIFICATE),
        ("received fatal alert: DecryptError", CLIENT_CERTIFICATE),
        ("received fatal alert: AccessDenied", CLIENT_CERTIFICATE),
        ("received fatal alert: UnknownCA", CLIENT_CERTIFICATE),
        ("received fatal alert: BadCertificate", CLIENT_CERTIFICATE),
        ("received fatal alert: UnsupportedCertificate", CLIENT_CERTIFICATE),
        ("received fatal alert: Certificate", CLIENT_CERTIFICATE),
        ("unknown command", COMMANDS),
        // From inside a script.
        ("Unknown Redis command", COMMANDS),
        ("'struct'", "its scripts lack the library `struct`; use Redis 6.2, Valkey 7.2 or newer"),
    ];
    known.iter().find(|(text, _)| mentions(error, text)).map(|(_, remedy)| *remedy)
}

const CREDENTIALS: &str =
    "it does not take the user or the password of the URL, or of the function for credentials";

const SERVER_CERTIFICATE: &str = "its certificate is not trusted; it must be valid now, for the host by which \
                                  it is reached, and signed by an authority of `root_certificate_file`, \
                                  `root_certificate_pem` or the system";

const CLIENT_CERTIFICATE: &str = "it ends the handshake of TLS; most likely it requires a client certificate \
                                  and gets none, or not one that it takes: give one that is valid, for \
                                  clients and of its authority, by `client_certificate_files` or \
                                  `client_certificate_pem`";

/// Text of the error if it comes from a sentinel.
pub(super) const SENTINEL_CREDENTIALS: &str = "the sentinel rejects the user or the password of the URL";

/// Text of the error if a server without TLS in its URL replies by TLS.
pub(super) const SPEAKS_TLS: &str = "the server speaks TLS";

/// Text of the error if keys of one script are not on the server where it ran.
pub(super) const SEVERAL_SERVERS: &str = "keys of one script are on several servers";

const SHARDED: &str = "its keys are on several servers; begin the URL of a cluster with `redis-cluster://`, and let \
                       a proxy lead to one server";

const COMMANDS: &str = "it lacks a command that decisions need, or has it disabled or renamed; use Redis 6.2, \
                        Valkey 7.2 or newer";

const PERMISSIONS: &str = "its user may not run what decisions need; `ACL LOG` at the server names it, and the \
                           documentation lists all commands";

/// Whether the server's error text contains `words`.
fn mentions(error: &RedisError, words: &str) -> bool {
    error.detail().is_some_and(|text| text.contains(words)) || error.to_string().contains(words)
}

/// An error of the client crate without the addresses of other nodes, so that it may be logged. The node of a
/// cluster that it is about is named by its hash slots.
struct RedactedError {
    error: Arc<RedisError>,
    slots: Option<HashSlots>,
}

impl fmt::Display for RedactedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((first, last)) = self.slots {
            write!(f, "the node of hash slots {first} to {last}: ")?;
        }
        match self.error.code() {
            Some(code @ ("MOVED" | "ASK")) => write!(f, "{code}: the key is on another node"),
            _ => self.error.fmt(f),
        }
    }
}

impl RedactedError {
    fn names_a_node(&self) -> bool {
        matches!(self.error.code(), Some("MOVED" | "ASK"))
            || self.error.kind() == ErrorKind::ClusterConnectionNotFound
    }
}

impl fmt::Debug for RedactedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for RedactedError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        if self.names_a_node() { None } else { self.error.source() }
    }
}
