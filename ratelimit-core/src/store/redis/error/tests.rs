//! Error lines of servers, by what they mean.

use super::*;

/// Parses an error line of a server.
fn error(line: &str) -> RedisError {
    let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
    value.extract_error().unwrap_err()
}

#[test]
fn errors_of_the_set_up_have_a_remedy_and_are_not_transient() {
    for (line, expected) in [
        ("NOAUTH Authentication required.", "a password"),
        ("WRONGPASS invalid username-password pair or user is disabled.", "the password"),
        ("NOPERM this user has no permissions to run the 'eval' command", "may not run"),
        ("ERR The user executing the script can't run this command or subcommand script: f", "may not run"),
        ("ERR DB index is out of range", "no database"),
        ("ERR SELECT is not allowed in cluster mode", "other database"),
        ("ERR This instance has cluster support disabled", "redis://"),
        ("ERR unknown command 'EVALSHA', with args beginning with: ", "lacks a command"),
        ("ERR Unknown Redis command called from script script: f", "lacks a command"),
        ("MOVED 1 192.0.2.7:6379", "redis-cluster://"),
    ] {
        let found = unavailable(Arc::new(error(line)), false);
        let StoreError::Misconfigured { remedy, .. } = &found else { panic!("{line}: {found:?}") };
        assert!(remedy.contains(expected), "{line}: {found}");
        assert!(!found.is_transient());
    }
    for line in [
        "LOADING Redis is loading the dataset in memory",
        "READONLY You can't write against a read only replica.",
        "OOM command not allowed when used memory > 'maxmemory'.",
        "CLUSTERDOWN The cluster is down",
    ] {
        let found = unavailable(Arc::new(error(line)), false);
        assert!(
            matches!(found, StoreError::Unavailable { source: Some(_) }) && found.is_transient(),
            "{line}: {found:?}"
        );
    }
    let moved = unavailable(Arc::new(error("MOVED 1 192.0.2.7:6379")), true);
    assert!(matches!(moved, StoreError::Unavailable { .. }), "{moved:?}");
}

#[test]
fn the_address_of_another_node_is_not_shown() {
    for line in ["MOVED 1 192.0.2.7:6379", "ASK 1 192.0.2.7:6379"] {
        let found = unavailable(Arc::new(error(line)), true);
        let source = found.source().unwrap();
        let text = format!("{found} {found:?} {source} {source:?} {:?}", source.source());
        assert!(!text.contains("192.0.2.7"), "{text}");
        assert!(text.contains("another node"), "{text}");
    }
}

#[test]
fn a_server_that_cannot_serve_any_request_opens_the_breaker() {
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
        assert!(
            matches!(ConnectionImpact::from_error(&error(line)), ConnectionImpact::CannotServe),
            "{line}"
        );
    }
    for line in [
        "READONLY You can't write against a read only replica.",
        "NOAUTH Authentication required.",
        "WRONGPASS invalid username-password pair or user is disabled.",
    ] {
        assert!(
            matches!(ConnectionImpact::from_error(&error(line)), ConnectionImpact::WrongServer),
            "{line}"
        );
    }
}

#[test]
fn an_error_about_one_call_does_not_affect_the_connection() {
    for line in ["WRONGTYPE Operation against a key holding the wrong kind of value", "ERR user_script:1: x"]
    {
        assert!(matches!(ConnectionImpact::from_error(&error(line)), ConnectionImpact::None), "{line}");
    }
}
