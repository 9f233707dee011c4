//! Passwords, users and permissions that change while a limiter runs.

use std::time::{Duration, Instant};

use ratelimit_core::{Algorithm, Check, OnError, Policy};
use tests::redis::server;

use super::{SECOND, fail_and_recover, patient};

#[tokio::test]
async fn a_temporary_password_does_not_end_the_connection_for_good() {
    let Some(server) = server() else { return };
    let console = std::cell::RefCell::new(server.console());
    let fail = || {
        console.borrow_mut().must("CONFIG SET requirepass s3cret");
        console.borrow_mut().must("CLIENT KILL TYPE normal SKIPME yes");
    };
    let repair = || console.borrow_mut().must("CONFIG SET requirepass \"\"");
    // Database 1, because then connecting itself fails while a password is required.
    fail_and_recover("NOAUTH", &format!("{}1", server.url()), fail, repair, 2 * SECOND).await;
}

#[tokio::test]
async fn a_revoked_permission_is_an_outage_until_it_is_granted_again() {
    let Some(server) = server() else { return };
    server.must("ACL SETUSER app on >one ~* +@all");
    let url = format!("redis://app:one@127.0.0.1:{}/", server.port());
    let fail = || server.must("ACL SETUSER app -@scripting");
    fail_and_recover("NOPERM", &url, fail, || server.must("ACL SETUSER app +@scripting"), SECOND).await;
}

/// The permissions of `docs/when-redis-fails.md`, each taken away in turn.
#[tokio::test]
async fn every_documented_permission_is_needed_and_named_when_missing() {
    const COMMANDS: &str =
        "evalsha eval unlink time get mget set setrange pttl pexpire hget hset hdel select ping";
    let Some(server) = server() else { return };
    let commands: Vec<&str> = COMMANDS.split_whitespace().collect();
    let mut attempts = Vec::new();
    for missing in &commands {
        let rest = commands.iter().filter(|command| *command != missing);
        let rules: Vec<String> = rest.map(|command| format!("+{command}")).collect();
        server.must(&format!("ACL SETUSER without-{missing} on >s3cret ~* {}", rules.join(" ")));
        let url = format!("redis://without-{missing}:s3cret@127.0.0.1:{}/1", server.port());
        attempts.push(async move {
            let limiter = patient(&url);
            let mut reasons = Vec::new();
            for &algorithm in Algorithm::ALL {
                let policy = Policy::builder("permissions")
                    .algorithm(algorithm)
                    .max(3)
                    .window(Duration::from_millis(200))
                    .on_error(OnError::Deny)
                    .build();
                let group = [Check::new(&policy, missing.as_bytes())];
                let end = Instant::now() + Duration::from_secs(2);
                while Instant::now() < end {
                    let outcome = match limiter.check_all(&group).await {
                        Ok(outcome) => outcome,
                        Err(error) => {
                            if let Some(reason) = std::error::Error::source(&error) {
                                reasons.push(reason.to_string());
                                break;
                            }
                            tokio::time::sleep(Duration::from_millis(10)).await;
                            continue;
                        }
                    };
                    if !outcome.is_allowed() {
                        break;
                    }
                    if let Some(taken) = outcome.reservation(&group)
                        && outcome.outcomes()[0].remaining() == 1
                        && let Err(error) = limiter.refund(taken).await
                    {
                        reasons.extend(std::error::Error::source(&error).map(ToString::to_string));
                        break;
                    }
                }
                if let Err(error) = limiter.reset(&policy, missing).await {
                    reasons.extend(std::error::Error::source(&error).map(ToString::to_string));
                }
            }
            (*missing, reasons)
        });
    }
    for (missing, reasons) in futures_util::future::join_all(attempts).await {
        println!("without {missing}: {}", reasons.first().map_or("works", |reason| reason));
        // Only an idle connection needs it.
        assert_eq!(reasons.is_empty(), missing == "ping", "{missing}: {reasons:?}");
        for reason in &reasons {
            let reason = reason.to_lowercase();
            assert!(reason.contains("perm") || reason.contains("can't run"), "{missing}: {reason}");
            assert!(reason.contains(missing), "{missing}: {reason}");
        }
    }
}
