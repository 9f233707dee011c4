//! The URL of a single server that leads to several: the store says so, and decides nothing there.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real waits")]

use std::time::{Duration, Instant};

use ratelimit_core::{RateLimiter, RedisStore, StoreError};
use tests::cluster::{cluster, cluster_of_one};
use tests::outage::PROBE;
use tests::redis::{Topology, server};
use tests::sharding::sharding_proxy;

/// Asks for many callers until the store says that it is not set up for the server, and then once more.
async fn is_told(url: &str) {
    let store = RedisStore::builder(url).deadline(Duration::from_secs(5)).build().unwrap();
    let limiter = RateLimiter::new(store);
    let end = Instant::now() + Duration::from_secs(20);
    let (mut told, mut asked) = (0, 0u32);
    while told < 20 {
        asked += 1;
        match limiter.check(&PROBE, asked.to_le_bytes()).await {
            Err(StoreError::Misconfigured { remedy, .. }) => {
                assert!(remedy.contains("`redis-cluster://`") && remedy.contains("one server"), "{remedy}");
                told += 1;
            }
            // A new cluster, of which not all nodes serve yet.
            Err(error) => assert!(told == 0 && Instant::now() < end, "{url}: {error:?}"),
            Ok(outcome) => panic!("{url} has decided: {outcome:?}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_node_of_a_cluster_decides_nothing_as_a_single_server() {
    let Some(cluster) = cluster(false).await else { return };
    for node in &cluster.nodes {
        is_told(&node.url()).await;
    }
}

#[tokio::test]
async fn a_node_that_has_all_hash_slots_decides_nothing_as_a_single_server() {
    let Some(node) = cluster_of_one().await else { return };
    is_told(&node.url()).await;
    node.make_documented_user(None);
    is_told(&node.url().replace("//", "//limiter:s3cret@")).await;
    // By the other URL it serves.
    node.make_documented_user(Some(Topology::Cluster));
    let url = format!("redis-cluster://limiter:s3cret@127.0.0.1:{}", node.port());
    let limiter =
        RateLimiter::new(RedisStore::builder(&url).deadline(Duration::from_secs(5)).build().unwrap());
    let end = Instant::now() + Duration::from_secs(20);
    while let Err(error) = limiter.check(&PROBE, "a").await {
        assert!(Instant::now() < end, "{error:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_proxy_decides_only_if_it_leads_to_one_server() {
    let (Some(first), Some(second), Some(third)) = (server(), server(), server()) else { return };
    is_told(&sharding_proxy(&[first.port(), second.port()])).await;
    let url = sharding_proxy(&[third.port()]);
    let limiter =
        RateLimiter::new(RedisStore::builder(&url).deadline(Duration::from_secs(5)).build().unwrap());
    assert!(limiter.check(&PROBE, "a").await.unwrap().is_allowed());
    assert_eq!(third.query("DBSIZE"), ":1", "nothing is left of the probe");
}
