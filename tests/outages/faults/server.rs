//! A server that is gone, hangs or refuses, and is used again.

use std::time::{Duration, Instant};

use ratelimit_core::RateLimiter;
use tests::outage::{Outage, PROBE};
use tests::proxy::Proxy;
use tests::redis::{server, server_with};

use super::{SECOND, fail_and_recover};

#[tokio::test]
async fn failure_policies_apply_from_the_start_until_there_is_a_server() {
    let Some(mut server) = server() else { return };
    server.kill();
    let mut outage = Outage::of("no server at the start", &server.url());
    outage.until_noticed().await;
    outage.policies_apply().await;
    outage.lasts().await;
    server.restart();
    outage.ends_within(SECOND).await;
}

#[tokio::test]
async fn a_restarted_server_is_found_again() {
    let Some(mut server) = server() else { return };
    let mut outage = Outage::of("killed", &server.url());
    outage.until_up().await;
    server.kill();
    outage.until_noticed().await;
    outage.policies_apply().await;
    outage.lasts().await;
    server.restart();
    outage.ends_within(SECOND).await;
}

#[tokio::test]
async fn a_hung_server_is_used_again_when_it_goes_on() {
    let Some(server) = server() else { return };
    fail_and_recover("hung", &server.url(), || server.signal("STOP"), || server.signal("CONT"), 2 * SECOND)
        .await;
}

#[tokio::test]
async fn a_server_busy_with_a_script_is_used_again_after_it() {
    let Some(server) = server_with("--lua-time-limit 200") else { return };
    let url = server.url();
    let script = std::sync::Mutex::new(None);
    let fail = || {
        let run = move || tests::redis::query(&url, "EVAL \"while true do end\" 0");
        *script.lock().unwrap() = Some(std::thread::spawn(run));
    };
    fail_and_recover("busy with a script", &server.url(), fail, || server.must("SCRIPT KILL"), SECOND).await;
    let answer = script.lock().unwrap().take().unwrap().join().unwrap();
    assert!(answer.starts_with('-'), "{answer}");
}

/// A server that rejects commands after one command, and takes them again after another.
macro_rules! rejecting {
    ($($test:ident, $name:literal, $options:literal, $fail:literal, $repair:literal;)+) => {
        $(#[tokio::test]
        async fn $test() {
            let Some(server) = server_with($options) else { return };
            let (fail, repair) = (|| server.must($fail), || server.must($repair));
            fail_and_recover($name, &server.url(), fail, repair, SECOND).await;
        })+
    };
}

rejecting! {
    a_master_that_becomes_a_replica_is_not_used_until_it_is_a_master_again,
        "READONLY", "", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE";
    a_replica_without_its_master_is_not_used,
        "MASTERDOWN", "--replica-serve-stale-data no", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE";
    a_server_without_memory_is_used_again_when_it_has_some,
        "OOM", "", "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0";
    a_master_that_wants_replicas_is_used_again_when_it_does_not,
        "NOREPLICAS", "", "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0";
}

#[tokio::test]
async fn a_master_that_was_demoted_behind_one_address_is_left_for_the_new_one() {
    let (Some(first), Some(second)) = (server(), server()) else { return };
    let proxy = Proxy::before(first.port());
    let mut outage = Outage::of("demoted", &proxy.url());
    outage.until_up().await;
    // Present connections stay, as those through a load balancer do.
    proxy.retarget(second.port());
    first.must(&format!("REPLICAOF 127.0.0.1 {}", second.port()));
    outage.until_lost().await;
    outage.ends_within(SECOND).await;
}

#[tokio::test]
async fn a_server_at_its_client_limit_is_used_again_below_it() {
    let Some(server) = server() else { return };
    let console = std::cell::RefCell::new(server.console());
    let fail = || {
        console.borrow_mut().must("CONFIG SET maxclients 1");
        console.borrow_mut().must("CLIENT KILL TYPE normal SKIPME yes");
    };
    let repair = || console.borrow_mut().must("CONFIG SET maxclients 1000");
    fail_and_recover("maxclients", &server.url(), fail, repair, SECOND).await;
}

#[tokio::test]
async fn the_words_with_which_a_server_refuses_a_connection_are_those_of_the_error() {
    let Some(server) = server() else { return };
    let mut console = server.console();
    console.must("CONFIG SET maxclients 1");
    // A password is sent before the first script, and may cross the words.
    for url in [server.url(), server.url().replace("redis://", "redis://:s3cret@")] {
        for _ in 0..20 {
            let reason = reason(&url).await;
            assert!(reason.contains("max number of clients reached"), "{url}: {reason}");
        }
    }
}

/// Why the first attempt to connect to `url` has failed.
async fn reason(url: &str) -> String {
    let limiter = RateLimiter::redis(url).unwrap();
    let end = Instant::now() + 20 * SECOND;
    loop {
        if let Err(error) = limiter.check(&PROBE, "a").await
            && let Some(reason) = std::error::Error::source(&error)
        {
            return reason.to_string();
        }
        assert!(Instant::now() < end, "{url}: no reason");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_server_that_is_loading_is_used_when_it_has_loaded() {
    // It looks at its clients after each 2 MiB, about 50 keys.
    let Some(mut server) = server_with("--key-load-delay 1000 --rdbcompression no") else { return };
    server.must("DEBUG POPULATE 1000 filler 40960");
    server.must("SAVE");
    let mut outage = Outage::of("LOADING", &server.url());
    outage.until_up().await;
    server.restart_at_once();
    let loading = || {
        let connected = std::net::TcpStream::connect(("127.0.0.1", server.port())).is_ok();
        connected && server.query("PING").starts_with("-LOADING")
    };
    assert!(tests::within(Duration::from_secs(10), loading), "never said LOADING");
    outage.until_noticed().await;
    outage.policies_apply().await;
    assert!(tests::within(Duration::from_secs(20), || server.query("PING") == "+PONG"), "never loaded");
    outage.ends_within(SECOND).await;
}
