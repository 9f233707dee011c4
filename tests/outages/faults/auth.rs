//! Passwords, users and permissions that change while a limiter runs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ratelimit_core::{Algorithm, Check, OnError, Policy, RateLimiter, RedisCredentials, RedisStore};
use tests::cluster::cluster;
use tests::outage::PROBE;
use tests::redis::{Server, query, server};
use tests::sentinel::{SERVICE, sentinels};

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

/// The permissions of `docs/redis.md`, each taken away in turn.
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

/// A limiter whose function for credentials gives what is in the mutex, and a count of its calls.
fn with_changing_password(url: &str, password: &Arc<Mutex<String>>) -> RateLimiter {
    let password = Arc::clone(password);
    let store = RedisStore::builder(url)
        .credentials(move || Ok(RedisCredentials::password(password.lock().unwrap().clone())));
    RateLimiter::new(store.deadline(SECOND).build().unwrap())
}

async fn until_decided(limiter: &RateLimiter, what: &str) {
    let end = Instant::now() + 30 * SECOND;
    while let Err(error) = limiter.check(&PROBE, "a").await {
        assert!(Instant::now() < end, "{what}: {error:?}");
        tokio::time::sleep(SECOND / 50).await;
    }
}

/// Changes the password of all servers, and cuts their connections.
fn rotate(servers: &[&Server], old: &str, new: &str) {
    for server in servers {
        let mut console = server.console();
        if !old.is_empty() {
            console.must(&format!("AUTH {old}"));
        }
        console.must(&format!("CONFIG SET requirepass {new}"));
        console.must("CLIENT KILL TYPE normal SKIPME yes");
    }
}

#[tokio::test]
async fn a_password_that_changes_needs_no_restart() {
    let Some(server) = server() else { return };
    let password = Arc::new(Mutex::new("one".to_owned()));
    rotate(&[&server], "", "one");
    let limiter = with_changing_password(&server.url(), &password);
    until_decided(&limiter, "the first password").await;
    rotate(&[&server], "one", "two");
    let end = Instant::now() + 30 * SECOND;
    while limiter.check(&PROBE, "a").await.is_ok() {
        assert!(Instant::now() < end, "the old password still serves");
    }
    *password.lock().unwrap() = "two".to_owned();
    until_decided(&limiter, "the second password").await;
}

#[tokio::test]
async fn a_password_of_a_cluster_that_changes_needs_no_restart() {
    let Some(cluster) = cluster(false).await else { return };
    let nodes: Vec<&Server> = cluster.nodes.iter().collect();
    let password = Arc::new(Mutex::new("one".to_owned()));
    rotate(&nodes, "", "one");
    let limiter = with_changing_password(&cluster.url(), &password);
    until_decided(&limiter, "the first password").await;
    *password.lock().unwrap() = "two".to_owned();
    rotate(&nodes, "one", "two");
    until_decided(&limiter, "the second password").await;
}

#[tokio::test]
async fn a_password_of_servers_behind_sentinels_that_changes_needs_no_restart() {
    let Some(set_up) = sentinels().await else { return };
    // The sentinels have no password, and must not take the master for down because of that.
    for sentinel in 0..3 {
        let url = format!("redis://127.0.0.1:{}/", set_up.watcher(sentinel));
        let answer = query(&url, &format!("SENTINEL SET {SERVICE} down-after-milliseconds 3600000"));
        assert_eq!(answer, "+OK");
    }
    let password = Arc::new(Mutex::new("one".to_owned()));
    rotate(&[&set_up.master], "", "one");
    let limiter = with_changing_password(&set_up.url(), &password);
    until_decided(&limiter, "the first password").await;
    *password.lock().unwrap() = "two".to_owned();
    rotate(&[&set_up.master], "one", "two");
    until_decided(&limiter, "the second password").await;
}

#[tokio::test]
async fn a_function_for_credentials_may_fail_panic_and_block_and_is_asked_again() {
    let Some(server) = server() else { return };
    rotate(&[&server], "", "one");
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let store = RedisStore::builder(&server.url())
        .connect_timeout(SECOND / 5)
        .connections(1)
        .credentials(move || match counted.fetch_add(1, Ordering::SeqCst) {
            0 => Err("the vault is closed".into()),
            1 => panic!("a faulty function"),
            2 => {
                // Longer than an attempt to connect: the next attempt takes the result.
                std::thread::sleep(SECOND / 2);
                Ok(RedisCredentials::new("default", "one"))
            }
            call => panic!("call {call}, although the third had the password"),
        })
        .build()
        .unwrap();
    let limiter = RateLimiter::new(store);
    let failed = limiter.check(&PROBE, "a").await.unwrap_err();
    println!("{failed:?}");
    until_decided(&limiter, "after the third call").await;
    assert_eq!(calls.load(Ordering::SeqCst), 3);
}
