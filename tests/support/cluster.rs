//! A real Redis Cluster: three primaries, with a replica each when asked for, on loopback.

use std::time::Duration;

use ratelimit_core::RedisStore;
use ratelimit_core::clock::FakeClock;
use redis::Value;
use redis::aio::MultiplexedConnection;

use crate::redis::{Server, is_installed};

/// After so many milliseconds without a sign of life a node is taken for dead.
const NODE_TIMEOUT_MS: u32 = 2000;

/// A running cluster. Nodes 0 to 2 are the primaries at first, nodes 3 to 5 their replicas.
#[derive(Debug)]
pub struct Cluster {
    pub nodes: Vec<Server>,
}

/// Starts a cluster, or says that this test is skipped.
pub async fn cluster(replicas: bool) -> Option<Cluster> {
    if !is_installed() {
        return None;
    }
    let options: Vec<String> = format!(
        "--cluster-enabled yes --cluster-config-file nodes.conf --cluster-node-timeout {NODE_TIMEOUT_MS} \
         --repl-diskless-sync-delay 0 --cluster-replica-validity-factor 0"
    )
    .split_whitespace()
    .map(str::to_owned)
    .collect();
    let size = if replicas { 6 } else { 3 };
    let cluster = Cluster { nodes: (0..size).map(|_| Server::start_with(&options)).collect() };
    cluster.join().await;
    Some(cluster)
}

async fn ask<T: redis::FromRedisValue>(wire: &mut MultiplexedConnection, command: &str) -> T {
    let mut words = command.split_whitespace();
    let mut request = redis::cmd(words.next().unwrap());
    for word in words {
        request.arg(word);
    }
    request.query_async(wire).await.unwrap_or_else(|error| panic!("{command}: {error}"))
}

impl Cluster {
    /// Makes one cluster of the nodes.
    async fn join(&self) {
        let mut wires = Vec::new();
        for node in &self.nodes {
            wires.push(node.raw().await);
        }
        for (i, wire) in wires.iter_mut().enumerate().take(3) {
            let _: Value = ask(wire, "CONFIG SET cluster-announce-ip 127.0.0.1").await;
            let _: Value = ask(wire, &format!("CLUSTER SET-CONFIG-EPOCH {}", i + 1)).await;
            let (first, last) = (i * 16_384 / 3, (i + 1) * 16_384 / 3 - 1);
            let _: Value = ask(wire, &format!("CLUSTER ADDSLOTSRANGE {first} {last}")).await;
        }
        for node in &self.nodes[1..] {
            let _: Value = ask(&mut wires[0], &format!("CLUSTER MEET 127.0.0.1 {}", node.port())).await;
        }
        for wire in &mut wires {
            self.until(wire, "CLUSTER INFO", &format!("cluster_known_nodes:{}", self.nodes.len())).await;
        }
        for i in 3..self.nodes.len() {
            let primary: String = ask(&mut wires[i - 3], "CLUSTER MYID").await;
            // The replica may not have heard of its primary yet.
            self.until(&mut wires[i], "CLUSTER NODES", &primary).await;
            let _: Value = ask(&mut wires[i], &format!("CLUSTER REPLICATE {primary}")).await;
        }
        for wire in &mut wires {
            self.until(wire, "CLUSTER INFO", "cluster_state:ok").await;
        }
        for wire in wires.iter_mut().skip(3) {
            // Otherwise it is not eligible when its primary dies.
            self.until(wire, "INFO replication", "master_link_status:up").await;
        }
    }

    /// Waits until the answer to `command` contains `text`.
    async fn until(&self, wire: &mut MultiplexedConnection, command: &str, text: &str) {
        for _ in 0..3000 {
            let answer: String = ask(wire, command).await;
            if answer.contains(text) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{command} never said {text}");
    }

    /// All nodes, as one URL.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis-cluster://{}", hosts.join(","))
    }

    /// A store whose scripts believe `clock`.
    pub fn store_at(&self, clock: &FakeClock) -> RedisStore {
        let builder = RedisStore::builder(&self.url()).deadline(Duration::from_secs(10));
        builder.clock(clock.clone()).build().unwrap()
    }
}
