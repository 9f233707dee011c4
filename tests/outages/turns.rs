//! Groups of several callers in a cluster over a token bucket: what goes back of a denied one while turns are
//! taken, and while not.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use ratelimit_core::clock::FakeClock;
use ratelimit_core::{Algorithm, Check, GroupOutcome, OnError, Policy, RateLimiter, RedisStore, StoreError};
use tests::clock_at_start;
use tests::cluster::{Cluster, cluster_behind_proxies};
use tests::proxy::Mode;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

fn bucket(burst: u64) -> Policy {
    let bucket = Policy::builder("turns").algorithm(Algorithm::TokenBucket).max(1).window(SECOND);
    bucket.burst(burst).on_error(OnError::Deny).build()
}

/// A window that admits one request.
fn one() -> Policy {
    Policy::builder("one").max(1).window(HOUR).on_error(OnError::Deny).build()
}

/// A limiter that has a connection.
async fn limiter(cluster: &Cluster, clock: &FakeClock) -> RateLimiter {
    let store = RedisStore::builder(&cluster.url()).deadline(Duration::from_secs(30));
    let store = store.denial_cache_ttl(Duration::ZERO).clock(clock.clone());
    let limiter = RateLimiter::builder(store.build().unwrap()).clock(clock.clone()).build();
    while limiter.peek(&bucket(1), "connects").await.is_err() {
        tokio::task::yield_now().await;
    }
    limiter
}

/// The number of the node that has a caller's count, which is made.
async fn node_of(cluster: &Cluster, limiter: &RateLimiter, policy: &Policy, caller: &str) -> usize {
    let sizes = || cluster.nodes.iter().map(|node| node.query("DBSIZE")).collect::<Vec<_>>();
    let before = sizes();
    assert!(limiter.check(policy, caller).await.unwrap().is_allowed());
    let after = sizes();
    before.iter().zip(&after).position(|(before, after)| before != after).unwrap()
}

/// A denied group of two callers on two nodes: what happens between the charge of the first and the denial of
/// the second.
struct Denied {
    cluster: Cluster,
    clock: FakeClock,
    /// The process that has the group, and another.
    group: RateLimiter,
    other: RateLimiter,
    /// The caller that is denied, and the number of its node.
    full: (String, usize),
    /// The caller that is charged first.
    charged: String,
}

impl Denied {
    async fn new() -> Option<Self> {
        let (cluster, clock) = (cluster_behind_proxies().await?, clock_at_start());
        let (group, other) = (limiter(&cluster, &clock).await, limiter(&cluster, &clock).await);
        let full = "full".to_owned();
        let node = node_of(&cluster, &other, &one(), &full).await;
        let mut charged = None;
        for number in 0.. {
            let caller = format!("caller-{number}");
            if node_of(&cluster, &other, &one(), &caller).await != node {
                charged = Some(caller);
                break;
            }
        }
        Some(Self { cluster, clock, group, other, full: (full, node), charged: charged.unwrap() })
    }

    /// Has the group denied, and the other process do something between charge and denial.
    async fn meanwhile<T>(
        &self,
        bucket: &Policy,
        other: impl Future<Output = T>,
    ) -> (Result<GroupOutcome, StoreError>, T) {
        let proxy = &self.cluster.proxies[self.full.1];
        let one = one();
        let group = [Check::new(bucket, &self.charged), Check::new(&one, &self.full.0)];
        proxy.set(Mode::Hold);
        let mut denied = pin!(self.group.check_all(&group));
        let full = self.other.peek(bucket, &self.charged).await.unwrap().remaining();
        while self.other.peek(bucket, &self.charged).await.unwrap().remaining() == full {
            assert!(denied.as_mut().now_or_never().is_none(), "the second caller is not answered");
            tokio::task::yield_now().await;
        }
        let other = other.await;
        proxy.set(Mode::Pass);
        (denied.await, other)
    }
}

#[tokio::test]
async fn a_denied_group_in_a_cluster_moves_no_turn_that_was_taken_behind_it() {
    let Some(denied) = Denied::new().await else { return };
    let bucket = bucket(1);
    let mut turn = pin!(denied.other.wait(&bucket, &denied.charged, 1, HOUR));
    let taken = async {
        assert!(turn.as_mut().now_or_never().is_none());
        // A later request of the same caller is answered later.
        let next = denied.other.peek(&bucket, &denied.charged).await.unwrap();
        assert!(turn.as_mut().now_or_never().is_none(), "it sleeps from now on");
        next.retry_after()
    };
    let (outcome, retry_after) = denied.meanwhile(&bucket, taken).await;
    assert_eq!(retry_after, Some(2 * SECOND), "the charge of the group, and a turn behind it");
    assert!(!outcome.unwrap().is_allowed());
    // Without the charge a second turn would be due together with the one that was taken.
    let next = denied.other.peek(&bucket, &denied.charged).await.unwrap();
    assert_eq!(next.retry_after(), Some(2 * SECOND));
    denied.clock.advance(SECOND + SECOND / 1000);
    assert_eq!(turn.await.unwrap().due_after(), SECOND);
}

#[tokio::test]
async fn a_denied_group_in_a_cluster_gives_back_what_it_charged_also_when_others_were_charged_meanwhile() {
    let Some(denied) = Denied::new().await else { return };
    let bucket = bucket(5);
    let charged = denied.other.check(&bucket, &denied.charged);
    let (outcome, charged) = denied.meanwhile(&bucket, charged).await;
    assert!(charged.unwrap().is_allowed());
    assert!(!outcome.unwrap().is_allowed());
    let left = denied.other.peek(&bucket, &denied.charged).await.unwrap().remaining();
    assert_eq!(left, 4, "that of the group is free again");
}
