//! Remedies for errors that do not pass by themselves.

use redis::{ErrorKind, RedisError};

/// What to change in the set-up; `None` for an error that passes by itself.
pub(super) fn remedy(error: &RedisError, is_cluster: bool) -> Option<&'static str> {
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
        // From inside a script: the command is missing or was renamed.
        (
            "Unknown Redis command",
            "it lacks a command that decisions need; use Redis 6.2, Valkey 7.2 or newer",
        ),
    ];
    known.iter().find(|(text, _)| mentions(error, text)).map(|(_, remedy)| *remedy)
}

const PERMISSIONS: &str = "its user may not run what decisions need; `ACL LOG` at the server names it, and the \
                           documentation lists all commands";

/// Whether the server's error text contains `words`.
pub(super) fn mentions(error: &RedisError, words: &str) -> bool {
    error.detail().is_some_and(|text| text.contains(words)) || error.to_string().contains(words)
}
