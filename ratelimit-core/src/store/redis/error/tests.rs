//! Tests of what error lines of servers mean.

use super::*;

/// Parses an error line of a server.
pub(in crate::store::redis) fn error(line: &str) -> RedisError {
    let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
    value.extract_error().unwrap_err()
}

/// Errors inside a script as servers before version 7 write them: of a script that fails, and of a script
/// that returns the error.
fn inside_a_script(words: &str) -> [String; 2] {
    [
        format!(
            "ERR Error running script (call to f_86525b6ce255a2f843a63e29ede6c1ffef2bb2b4): @user_script:183: \
             @user_script: 183: {words}"
        ),
        format!("@user_script: 9: {words}   (SET)"),
    ]
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
        ("ERR unknown command 'EVALSHA', with args beginning with: ", "disabled or renamed"),
        ("ERR Unknown Redis command called from script script: f", "lacks a command"),
        ("ERR user_script:15: attempt to index global 'struct' (a nil value)", "the library `struct`"),
        ("ERR user_script:15: Script attempted to access nonexistent global variable 'struct'", "`struct`"),
        ("DENIED Redis is running in protected mode because protected mode is enabled", "its own machine"),
        ("ERR The user executing the script can't access at least one of the keys mentioned", "may not run"),
        ("MOVED 1 192.0.2.7:6379", "redis-cluster://"),
        ("CROSSSLOT Keys in request don't hash to the same slot", "redis-cluster://"),
    ] {
        let found = unavailable(Arc::new(error(line)), None);
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
        let found = unavailable(Arc::new(error(line)), None);
        assert!(
            matches!(found, StoreError::Unavailable { source: Some(_) }) && found.is_transient(),
            "{line}: {found:?}"
        );
    }
    for words in inside_a_script("The user executing the script can't run this command or subcommand") {
        let found = unavailable(Arc::new(error(&words)), None);
        assert!(matches!(found, StoreError::Misconfigured { .. }), "{found:?}");
    }
    for words in inside_a_script("-READONLY You can't write against a read only replica.") {
        let found = unavailable(Arc::new(error(&words)), None);
        assert!(matches!(found, StoreError::Unavailable { .. }), "{found:?}");
    }
    let moved = unavailable(Arc::new(error("MOVED 1 192.0.2.7:6379")), Some(ALL_SLOTS));
    assert!(matches!(moved, StoreError::Unavailable { .. }), "{moved:?}");
}

#[cfg(feature = "redis-tls-no-provider")]
#[test]
fn mistakes_of_certificates_are_those_of_the_set_up() {
    use rustls::{AlertDescription, CertificateError, Error};

    for (problem, expected) in [
        (CertificateError::UnknownIssuer.into(), SERVER_CERTIFICATE),
        (CertificateError::Expired.into(), SERVER_CERTIFICATE),
        (CertificateError::NotValidForName.into(), SERVER_CERTIFICATE),
        (Error::AlertReceived(AlertDescription::CertificateRequired), CLIENT_CERTIFICATE),
        (Error::AlertReceived(AlertDescription::UnsupportedCertificate), CLIENT_CERTIFICATE),
        (Error::AlertReceived(AlertDescription::HandshakeFailure), CLIENT_CERTIFICATE),
        (Error::AlertReceived(AlertDescription::DecryptError), CLIENT_CERTIFICATE),
        (Error::AlertReceived(AlertDescription::UnknownCA), CLIENT_CERTIFICATE),
    ] {
        let problem = std::io::Error::new(std::io::ErrorKind::InvalidData, problem);
        let found = unavailable(Arc::new(RedisError::from(problem)), None);
        let StoreError::Misconfigured { remedy, .. } = found else { panic!("{found:?}") };
        assert_eq!(remedy, expected);
    }
    for alert in
        [AlertDescription::InternalError, AlertDescription::ProtocolVersion, AlertDescription::UserCanceled]
    {
        let problem = std::io::Error::new(std::io::ErrorKind::InvalidData, Error::AlertReceived(alert));
        let found = unavailable(Arc::new(RedisError::from(problem)), None);
        assert!(matches!(found, StoreError::Unavailable { .. }), "{found:?}");
    }
}

#[test]
fn the_address_of_another_node_is_not_shown() {
    for line in ["MOVED 1 192.0.2.7:6379", "ASK 1 192.0.2.7:6379"] {
        let found = unavailable(Arc::new(error(line)), Some((5461, 10_922)));
        let source = found.source().unwrap();
        let text = format!("{found} {found:?} {source} {source:?} {:?}", source.source());
        assert!(!text.contains("192.0.2.7"), "{text}");
        assert!(text.contains("the node of hash slots 5461 to 10922: "), "{text}");
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
        "CROSSSLOT Keys in request don't hash to the same slot",
        "UNKILLABLE Sorry the script already executed write commands against the dataset.",
        "ERR The user executing the script can't run this command or subcommand script: f",
        "ERR The user executing the script can't access at least one of the keys mentioned in the command",
    ] {
        assert!(
            matches!(ConnectionImpact::from_error(&error(line)), ConnectionImpact::CannotServe),
            "{line}"
        );
    }
    for words in [
        "-OOM command not allowed when used memory > 'maxmemory'.",
        "-NOREPLICAS Not enough good replicas to write.",
        "-MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk.",
        "-LOADING Redis is loading the dataset in memory",
        "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "The user executing the script can't run this command or subcommand",
        "The user executing the script can't access at least one of the keys mentioned in the command arguments",
    ] {
        for line in inside_a_script(words) {
            assert!(
                matches!(ConnectionImpact::from_error(&error(&line)), ConnectionImpact::CannotServe),
                "{line}"
            );
        }
    }
    let [failed, handed_on] = inside_a_script("-READONLY You can't write against a read only replica.");
    for line in [
        &failed,
        &handed_on,
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
fn an_error_about_one_key_does_not_affect_the_connection() {
    let words = "WRONGTYPE Operation against a key holding the wrong kind of value";
    let [failed, handed_on] = inside_a_script(&format!("-{words}"));
    for line in [words, &failed, &handed_on] {
        assert!(matches!(ConnectionImpact::from_error(&error(line)), ConnectionImpact::None), "{line}");
    }
}

#[test]
fn an_error_that_only_quotes_words_has_no_other_meaning() {
    for line in [
        "ERR user_script:1: attempt to compare nil with number",
        "ERR unknown command 'EVALSHA', with args beginning with: '86' '1' 'rl1:-READONLY you' '-OOM no'",
        "ERR Error running script (call to f_86): @user_script:1: user_script:1: x: -1 is no number",
    ] {
        assert_eq!(meaning(&error(line)), Some("ERR"), "{line}");
        assert!(matches!(ConnectionImpact::from_error(&error(line)), ConnectionImpact::Unknown), "{line}");
    }
}
