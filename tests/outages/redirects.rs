//! Hash slots of a cluster that are being moved: which redirects are followed, to where, and for how long.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use ratelimit_core::{Algorithm, OnError, Policy, RateLimiter, RedisStore, StoreError};
use redis::Value;
use tests::cluster::{Cluster, cluster};
use tests::redis::Topology;
use tests::within;

static HOURLY: Policy = Policy::builder("hourly")
    .max(100)
    .window(Duration::from_secs(3600))
    .algorithm(Algorithm::FixedWindow)
    .on_error(OnError::Deny)
    .build();

/// A limiter that has charged a caller, the node that has the caller's key, and the key.
async fn charged(cluster: &Cluster, url: &str, deadline: Duration) -> (RateLimiter, usize, String) {
    let limiter = RateLimiter::new(RedisStore::builder(url).deadline(deadline).build().unwrap());
    tests::outage::until_settled(&limiter).await;
    assert!(limiter.check(&HOURLY, "a").await.unwrap().is_allowed());
    let (from, key) = cluster.place_of("*hourly*").await;
    (limiter, from, key)
}

#[tokio::test]
async fn a_key_that_is_not_on_the_node_of_a_hash_slot_in_migration_is_made_on_the_next() {
    let Some(cluster) = cluster(false).await else { return };
    let (limiter, from, key) = charged(&cluster, &cluster.url(), Duration::from_secs(10)).await;
    let to = (from + 1) % cluster.nodes.len();
    cluster.begin_move(&key, from, to).await;
    cluster.nodes[from].must(&format!("DEL {key}"));
    for left in [99, 98] {
        assert_eq!(limiter.check(&HOURLY, "a").await.unwrap().remaining(), left);
    }
    assert_eq!(cluster.place_of("*hourly*").await, (to, key));
}

/// The user of the limiter may not read the owners of the hash slots once it is connected.
#[tokio::test]
async fn a_redirect_alone_tells_where_a_hash_slot_is() {
    let Some(cluster) = cluster(false).await else { return };
    for node in &cluster.nodes {
        node.make_documented_user(Some(Topology::Cluster));
    }
    let url = cluster.url().replace("redis-cluster://", "redis-cluster://limiter:s3cret@");
    let (limiter, from, key) = charged(&cluster, &url, Duration::from_secs(10)).await;
    for node in &cluster.nodes {
        node.must("ACL SETUSER limiter -cluster");
    }
    cluster.move_slot_of(&key, from, (from + 1) % cluster.nodes.len(), Duration::ZERO).await;
    for left in [98, 97] {
        assert_eq!(limiter.check(&HOURLY, "a").await.unwrap().remaining(), left);
    }
}

#[tokio::test]
async fn nodes_that_redirect_to_each_other_are_an_error_before_the_deadline() {
    let Some(cluster) = cluster(false).await else { return };
    let (limiter, from, key) = charged(&cluster, &cluster.url(), Duration::from_secs(4)).await;
    // The other node knows of no move, so it sends the request back.
    let to = cluster.id_of((from + 1) % cluster.nodes.len()).await;
    let slot = cluster.slot_of(&key).await;
    cluster.nodes[from].must(&format!("CLUSTER SETSLOT {slot} MIGRATING {to}"));
    cluster.nodes[from].must(&format!("DEL {key}"));
    let error = limiter.check(&HOURLY, "a").await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_store_connects_while_every_hash_slot_is_in_migration() {
    let Some(cluster) = cluster(false).await else { return };
    for from in 0..3 {
        let to = cluster.id_of((from + 1) % 3).await;
        let mut moves = redis::pipe();
        for slot in from * 16_384 / 3..(from + 1) * 16_384 / 3 {
            moves.cmd("CLUSTER").arg("SETSLOT").arg(slot).arg("MIGRATING").arg(&to).ignore();
        }
        let _: Value = moves.query_async(&mut cluster.nodes[from].raw().await).await.unwrap();
    }
    let limiter = RateLimiter::redis(&cluster.url()).unwrap();
    assert!(within(Duration::from_secs(20), || limiter.is_ready()), "no node ran the probe");
}
