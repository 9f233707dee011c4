//! Why Redis cannot be reached is told to each request that it could not decide, and so in the log.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real waits")]

use std::error::Error;
use std::time::{Duration, Instant};

use ratelimit_core::{RateLimiter, RedisStore, StoreError};
use tests::cluster::{cluster, cluster_of_one};
use tests::log::Log;
use tests::outage::{PROBE, until_settled};
use tests::own_process::in_own_process;
use tests::proxy::{Mode, Proxy};
use tests::redis::{Server, free_port, server};
use tests::tls::{Certificate, secured_server_with};
use tests::within;
use tracing::Level;

const SECOND: Duration = Duration::from_secs(1);

/// Asks until so many requests got no decision and did not wait for one; each has to be told a cause with one
/// of these words.
async fn are_told(limiter: &RateLimiter, count: usize, words: &[&str]) {
    let (end, mut told) = (Instant::now() + 30 * SECOND, 0);
    while told < count {
        assert!(Instant::now() < end, "{told} of {count} were told");
        match limiter.check(&PROBE, "a").await {
            Err(error @ (StoreError::Unavailable { .. } | StoreError::Misconfigured { .. })) => {
                let cause = error.source().map(ToString::to_string).unwrap_or_default();
                // What was on the way when the connection was lost.
                let is_loss = ["broken pipe", "reset", "was lost"].iter().any(|words| cause.contains(words));
                assert!(is_loss || words.iter().any(|words| cause.contains(words)), "{error:?}");
                told += 1;
            }
            Ok(_) | Err(StoreError::Timeout { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn every_request_of_an_outage_is_told_its_cause() {
    let Some(server) = server() else { return };
    let proxy = Proxy::before(server.port());
    let limiter = RateLimiter::redis(&proxy.url()).unwrap();
    until_settled(&limiter).await;
    server.must(&format!("REPLICAOF 127.0.0.1 {}", free_port()));
    are_told(&limiter, 200, &["can't write", "longer than a decision"]).await;
    server.must("REPLICAOF NO ONE");
    until_settled(&limiter).await;
    proxy.set(Mode::Hold);
    are_told(&limiter, 200, &["in time", "no answer", "too late", "longer than a decision", "timed out"])
        .await;
}

/// Lets a server hang and then end. Requests of the outage have to be told the one and then the other, with
/// `part` before.
async fn told_of_both(url: &str, server: &mut Server, part: &str) {
    let limiter = RateLimiter::redis(url).unwrap();
    until_settled(&limiter).await;
    let told = async |causes: &[&str]| {
        let end = Instant::now() + 30 * SECOND;
        let mut last = None;
        while Instant::now() < end {
            // One of them has its key on the server.
            for caller in 0..20 {
                let Err(error) = limiter.check(&PROBE, caller.to_string()).await else { continue };
                let cause = error.source().map(ToString::to_string).unwrap_or_default();
                let is_told = |words: &&str| cause.starts_with(part) && cause.contains(*words);
                if causes.iter().any(is_told) {
                    return;
                }
                last = Some(cause);
            }
        }
        panic!("{causes:?}: {last:?}");
    };
    server.signal("STOP");
    told(&["in time", "too late", "no answer"]).await;
    server.kill();
    told(&["refused"]).await;
}

#[tokio::test]
async fn an_outage_has_the_cause_of_the_latest_failure_and_a_node_its_hash_slots() {
    let Some(mut server) = server() else { return };
    told_of_both(&server.url(), &mut server, "").await;
    let Some(mut cluster) = cluster(false).await else { return };
    for node in &cluster.nodes {
        node.must("CONFIG SET cluster-require-full-coverage no");
    }
    let url = cluster.url();
    told_of_both(&url, &mut cluster.nodes[2], "the node of hash slots 10922 to 16383: ").await;
}

/// The line that says that the store cannot answer.
async fn line_of_outage(limiter: &RateLimiter, log: &Log) -> String {
    let end = Instant::now() + 30 * SECOND;
    loop {
        assert!(limiter.check(&PROBE, "a").await.is_err());
        if let Some(line) = log.at(Level::ERROR).into_iter().find(|line| line.contains("cannot answer")) {
            return line;
        }
        assert!(Instant::now() < end, "no line");
    }
}

#[tokio::test]
async fn the_log_says_why_a_node_of_a_cluster_cannot_be_reached() {
    let Some(node) = cluster_of_one().await else { return };
    node.must("CONFIG SET cluster-announce-ip 127.0.0.1");
    node.must(&format!("CONFIG SET cluster-announce-port {}", free_port()));
    let (log, _guard) = Log::of_thread();
    let store = RedisStore::builder(&format!("redis-cluster://127.0.0.1:{}", node.port()));
    let limiter = RateLimiter::new(store.deadline(5 * SECOND).build().unwrap());
    let line = line_of_outage(&limiter, &log).await;
    assert!(line.contains("Connection refused"), "{line}");
}

#[tokio::test]
async fn the_log_says_that_the_certificate_of_a_node_is_the_reason() {
    let options = ["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--tls-cluster", "yes"];
    let Some(secured) = secured_server_with(Certificate::OfName, &options) else { return };
    secured.make_cluster();
    secured.server.must("CONFIG SET cluster-announce-ip 127.0.0.1");
    let (log, _guard) = Log::of_thread();
    let store = RedisStore::builder(&secured.url().replace("rediss", "rediss-cluster"));
    let store = store.root_certificate_pem(secured.authority.clone()).connect_timeout(5 * SECOND);
    let limiter = RateLimiter::new(store.deadline(10 * SECOND).build().unwrap());
    let line = line_of_outage(&limiter, &log).await;
    assert!(line.contains("certificate"), "{line}");
}

#[test]
fn why_a_connection_does_not_come_back_is_a_warning_once_an_outage() {
    in_own_process(|| {
        let Some(mut server) = server() else { return };
        let log = Log::of_process();
        let limiter = RateLimiter::redis(&server.url()).unwrap();
        let at = |level| {
            let mut lines = log.at(level);
            lines.retain(|line| line.contains("cannot connect to Redis"));
            lines
        };
        for outage in 1..=2 {
            assert!(within(20 * SECOND, || limiter.is_ready()));
            let before = at(Level::DEBUG).len();
            server.kill();
            assert!(within(20 * SECOND, || at(Level::DEBUG).len() >= before + 5));
            let warnings = at(Level::WARN);
            assert_eq!(warnings.len(), outage, "{warnings:?}");
            assert!(warnings[outage - 1].contains("refused"), "{warnings:?}");
            server.restart();
        }
    });
}

#[test]
fn at_the_start_the_first_attempt_that_fails_is_an_error_and_the_others_are_not() {
    in_own_process(|| {
        let log = Log::of_process();
        let _limiter = RateLimiter::redis(&format!("redis://127.0.0.1:{}/", free_port())).unwrap();
        let at = |level| log.at(level).iter().filter(|line| line.contains("cannot connect to Redis")).count();
        assert!(within(20 * SECOND, || at(Level::DEBUG) >= 5));
        assert_eq!((at(Level::ERROR), at(Level::WARN)), (1, 0));
    });
}
