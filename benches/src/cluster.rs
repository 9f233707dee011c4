//! A Redis Cluster of three primaries on loopback.

use std::time::{Duration, Instant};

use redis::{Cmd, cmd};

use crate::server::Server;

/// A running cluster; its nodes end with this value.
#[derive(Debug)]
pub struct Cluster {
    /// The primaries.
    pub nodes: Vec<Server>,
}

impl Cluster {
    /// Starts three nodes and makes a cluster of them.
    ///
    /// # Panics
    ///
    /// When they do not agree within half a minute.
    pub fn start() -> Self {
        let options = "--cluster-enabled yes --cluster-config-file nodes.conf --cluster-node-timeout 2000";
        let options: Vec<&str> = options.split(' ').collect();
        let nodes: Vec<Server> = (0..3).map(|_| Server::start(&options)).collect();
        for (i, node) in nodes.iter().enumerate() {
            node.ask::<()>(cmd("CONFIG").arg("SET").arg("cluster-announce-ip").arg("127.0.0.1"));
            node.ask::<()>(cmd("CLUSTER").arg("SET-CONFIG-EPOCH").arg(i + 1));
            let (first, last) = (i * 16_384 / 3, (i + 1) * 16_384 / 3 - 1);
            node.ask::<()>(cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(first).arg(last));
        }
        for node in &nodes[1..] {
            nodes[0].ask::<()>(cmd("CLUSTER").arg("MEET").arg("127.0.0.1").arg(node.port()));
        }
        let end = Instant::now() + Duration::from_secs(30);
        for node in &nodes {
            while !is_complete(node, cmd("CLUSTER").arg("INFO")) {
                assert!(Instant::now() < end, "the nodes do not agree");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Self { nodes }
    }

    /// All nodes, as a store's URL.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis-cluster://{}", hosts.join(","))
    }

    /// A connection that is driven by the runtime it is made in.
    pub async fn connect(&self) -> redis::cluster_async::ClusterConnection {
        let urls: Vec<String> = self.nodes.iter().map(Server::url).collect();
        let builder =
            redis::cluster::ClusterClientBuilder::new(urls).response_timeout(Duration::from_secs(20));
        builder.build().unwrap().get_async_connection().await.unwrap()
    }
}

fn is_complete(node: &Server, question: &Cmd) -> bool {
    let answer: String = node.ask(question);
    answer.contains("cluster_state:ok") && answer.contains("cluster_known_nodes:3")
}
