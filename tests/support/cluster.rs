//! A real Redis Cluster on loopback: three primaries, with or without a replica each.

use std::time::Duration;

use ratelimit_core::RedisStore;
use ratelimit_core::clock::FakeClock;
use redis::Value;
use redis::aio::MultiplexedConnection;

use crate::proxy::Proxy;
use crate::redis::{Server, is_installed};

/// A node without a sign of life for this many milliseconds is taken for dead.
const NODE_TIMEOUT_MS: u32 = 2000;

/// A running cluster. Nodes 0 to 2 are the primaries at first, nodes 3 to 5 their replicas.
#[derive(Debug)]
pub struct Cluster {
    pub nodes: Vec<Server>,
    /// The proxy of each node, which clients connect to instead, if there is one.
    pub proxies: Vec<Proxy>,
}

/// Starts a cluster, or says that this test is skipped.
pub async fn cluster(replicas: bool) -> Option<Cluster> {
    let cluster = nodes(if replicas { 6 } else { 3 })?;
    cluster.join().await;
    Some(cluster)
}

/// Starts a node that has all hash slots.
pub async fn cluster_of_one() -> Option<Server> {
    let node = nodes(1)?.nodes.pop()?;
    let slots: Vec<u16> = (0..16_384).collect();
    let mut claim = redis::cmd("CLUSTER");
    let _: Value = claim.arg("ADDSLOTS").arg(slots).query_async(&mut node.raw().await).await.unwrap();
    Some(node)
}

/// Starts a cluster of three, each of which clients reach through a proxy.
pub async fn cluster_behind_proxies() -> Option<Cluster> {
    let mut cluster = nodes(3)?;
    for node in &cluster.nodes {
        let proxy = Proxy::before(node.port());
        node.must(&format!("CONFIG SET cluster-announce-bus-port {}", node.port() + 10_000));
        node.must(&format!("CONFIG SET cluster-announce-port {}", proxy.port()));
        cluster.proxies.push(proxy);
    }
    cluster.join().await;
    Some(cluster)
}

fn nodes(size: usize) -> Option<Cluster> {
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
    Some(Cluster { nodes: (0..size).map(|_| Server::start_with(&options)).collect(), proxies: Vec::new() })
}

async fn query<T: redis::FromRedisValue>(wire: &mut MultiplexedConnection, command: &str) -> T {
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
            let _: Value = query(wire, "CONFIG SET cluster-announce-ip 127.0.0.1").await;
            let _: Value = query(wire, &format!("CLUSTER SET-CONFIG-EPOCH {}", i + 1)).await;
            let (first, last) = (i * 16_384 / 3, (i + 1) * 16_384 / 3 - 1);
            // One by one, as versions before 7 do not know ranges.
            let slots: Vec<String> = (first..=last).map(|slot| slot.to_string()).collect();
            let _: Value = query(wire, &format!("CLUSTER ADDSLOTS {}", slots.join(" "))).await;
        }
        for node in &self.nodes[1..] {
            let _: Value = query(&mut wires[0], &format!("CLUSTER MEET 127.0.0.1 {}", node.port())).await;
        }
        for wire in &mut wires {
            self.until(wire, "CLUSTER INFO", &format!("cluster_known_nodes:{}", self.nodes.len())).await;
        }
        for i in 3..self.nodes.len() {
            let primary: String = query(&mut wires[i - 3], "CLUSTER MYID").await;
            // The replica may not have heard of its primary yet.
            self.until(&mut wires[i], "CLUSTER NODES", &primary).await;
            let _: Value = query(&mut wires[i], &format!("CLUSTER REPLICATE {primary}")).await;
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
            let answer: String = query(wire, command).await;
            if answer.contains(text) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{command} never said {text}");
    }

    /// One more node, which has no slots.
    pub async fn add_node(&mut self) {
        let added = nodes(1).and_then(|mut one| one.nodes.pop()).expect("a server is installed");
        let mut wire = self.nodes[0].raw().await;
        let _: Value = query(&mut wire, &format!("CLUSTER MEET 127.0.0.1 {}", added.port())).await;
        self.nodes.push(added);
        for node in &self.nodes {
            // Otherwise it becomes a replica when it gives its last slot away.
            node.must("CONFIG SET cluster-allow-replica-migration no");
        }
        for node in &self.nodes {
            let known = format!("cluster_known_nodes:{}", self.nodes.len());
            self.until(&mut node.raw().await, "CLUSTER INFO", &known).await;
        }
        self.until(&mut self.nodes[self.nodes.len() - 1].raw().await, "CLUSTER INFO", "cluster_state:ok")
            .await;
    }

    /// The number of the node that has a key like `pattern`, and the key.
    pub async fn place_of(&self, pattern: &str) -> (usize, String) {
        for (i, node) in self.nodes.iter().enumerate() {
            let keys: Vec<String> = query(&mut node.raw().await, &format!("KEYS {pattern}")).await;
            if let Some(key) = keys.into_iter().next() {
                return (i, key);
            }
        }
        panic!("no node has {pattern}");
    }

    /// The id of a node.
    pub async fn id_of(&self, node: usize) -> String {
        query(&mut self.nodes[node].raw().await, "CLUSTER MYID").await
    }

    /// The hash slot of a key.
    pub async fn slot_of(&self, key: &str) -> u16 {
        query(&mut self.nodes[0].raw().await, &format!("CLUSTER KEYSLOT {key}")).await
    }

    /// Begins to move the hash slot of a key from one node to another. Keys that are there stay.
    pub async fn begin_move(&self, key: &str, from: usize, to: usize) {
        let (slot, source, target) = (self.slot_of(key).await, self.id_of(from).await, self.id_of(to).await);
        self.nodes[to].must(&format!("CLUSTER SETSLOT {slot} IMPORTING {source}"));
        self.nodes[from].must(&format!("CLUSTER SETSLOT {slot} MIGRATING {target}"));
    }

    /// Moves the hash slot of a key from one node to another, with all keys in it. Before and after they
    /// move, for `pause` each, the slot is on neither node as a whole.
    pub async fn move_slot_of(&self, key: &str, from: usize, to: usize, pause: Duration) {
        let (source, target) = (&self.nodes[from], &self.nodes[to]);
        let (slot, target_id) = (self.slot_of(key).await, self.id_of(to).await);
        self.begin_move(key, from, to).await;
        tokio::time::sleep(pause).await;
        let mut wire = source.raw().await;
        let keys: Vec<String> = query(&mut wire, &format!("CLUSTER GETKEYSINSLOT {slot} 100")).await;
        for key in keys {
            source.must(&format!("MIGRATE 127.0.0.1 {} {key} 0 5000", target.port()));
        }
        tokio::time::sleep(pause).await;
        for node in [target, source].into_iter().chain(&self.nodes) {
            node.must(&format!("CLUSTER SETSLOT {slot} NODE {target_id}"));
        }
    }

    /// All nodes, or the proxies before them, as one URL.
    pub fn url(&self) -> String {
        let nodes = self.nodes.iter().map(Server::port);
        let ports: Vec<u16> = if self.proxies.is_empty() {
            nodes.collect()
        } else {
            self.proxies.iter().map(Proxy::port).collect()
        };
        let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("redis-cluster://{}", hosts.join(","))
    }

    /// A store whose scripts believe `clock`.
    pub fn store_at(&self, clock: &FakeClock) -> RedisStore {
        let builder = RedisStore::builder(&self.url()).deadline(Duration::from_secs(10));
        builder.clock(clock.clone()).build().unwrap()
    }
}
