//! All servers that the URL names are replaced, one after another: those that came in their place are found
//! after the next faults.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real waits")]

use std::time::{Duration, Instant};

use ratelimit_core::{RateLimiter, RedisStore};
use tests::cluster::cluster;
use tests::outage::PROBE;
use tests::proxy::Proxy;
use tests::redis::{Server, ask};
use tests::sentinel::{SERVICE, master_port, sentinels};

use super::failover::{serves_as_master, wait_until};

/// Waits until requests of callers in all parts are decided by Redis.
async fn until_all_decide(limiter: &RateLimiter) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let mut all = true;
        for caller in 0..60u32 {
            all &= limiter.check(&PROBE, caller.to_le_bytes()).await.is_ok();
        }
        if all {
            return;
        }
        assert!(Instant::now() < end, "not found again");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until the store decides nothing for callers of any node that is out.
async fn until_out(limiter: &RateLimiter) {
    let end = Instant::now() + Duration::from_secs(60);
    while limiter.store_status().connection.unwrap().open_slot_ranges.is_empty() {
        for caller in 0..60u32 {
            let _ = limiter.check(&PROBE, caller.to_le_bytes()).await;
        }
        assert!(Instant::now() < end, "never out");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_found_when_all_nodes_of_the_url_are_gone() {
    let Some(mut cluster) = cluster(true).await else { return };
    for node in &cluster.nodes {
        node.must("CONFIG SET cluster-require-full-coverage no");
    }
    let ports: Vec<String> = (0..3).map(|node: usize| cluster.nodes[node].port().to_string()).collect();
    let url = format!("redis-cluster://127.0.0.1:{}", ports.join(",127.0.0.1:"));
    let limiter = RateLimiter::redis(&url).unwrap();
    until_all_decide(&limiter).await;
    for node in 0..3 {
        let replica = cluster.nodes[node + 3].port();
        // A failover by agreement is given up after 5 s on a busy machine.
        cluster.nodes[node + 3].must("CLUSTER FAILOVER TAKEOVER");
        wait_until(move || serves_as_master(replica)).await;
        until_all_decide(&limiter).await;
    }
    for node in 0..3 {
        let mut wire = cluster.nodes[node].raw().await;
        let gone: String = redis::cmd("CLUSTER").arg("MYID").query_async(&mut wire).await.unwrap();
        cluster.nodes[node].kill();
        cluster.nodes[3..].iter().for_each(|other| other.must(&format!("CLUSTER FORGET {gone}")));
    }
    until_all_decide(&limiter).await;

    cluster.nodes[3].kill();
    until_out(&limiter).await;
    cluster.nodes[4..].iter().for_each(Server::kill_clients);
    cluster.nodes[3].restart();
    until_all_decide(&limiter).await;

    // The next fault comes while a part is out.
    cluster.nodes[4].kill();
    until_out(&limiter).await;
    cluster.nodes[3].kill();
    cluster.nodes[5].kill();
    while limiter.check(&PROBE, "a").await.is_ok() {}
    cluster.nodes[3..].iter_mut().for_each(Server::restart);
    until_all_decide(&limiter).await;
}

#[tokio::test]
async fn the_master_is_found_when_all_sentinels_of_the_url_are_gone() {
    let Some(mut set_up) = sentinels().await else { return };
    let named: Vec<Proxy> = (0..3).map(|sentinel| Proxy::before(set_up.watcher(sentinel))).collect();
    let ports: Vec<String> = named.iter().map(|proxy| proxy.port().to_string()).collect();
    let url = format!("redis-sentinel://127.0.0.1:{}/{SERVICE}", ports.join(",127.0.0.1:"));
    let store = RedisStore::builder(&url).deadline(Duration::from_secs(1)).build().unwrap();
    let limiter = RateLimiter::new(store);
    until_all_decide(&limiter).await;

    set_up.join_three().await;
    // The store asks one after another: the first question has its answer when the second comes.
    let asked = move || named.iter().map(Proxy::accepted).sum::<usize>();
    let before = asked();
    wait_until(move || asked() >= before + 2).await;
    set_up.retire_three().await;
    let (sentinel, first) = (set_up.watcher(0), set_up.master.port());
    set_up.master.kill();
    wait_until(move || master_port(sentinel).is_some_and(|port| port != first)).await;
    let promoted = set_up.replica.port();
    wait_until(move || ask(promoted, "ROLE", 3).is_some_and(|role| role[2] == "master")).await;
    until_all_decide(&limiter).await;
}
