//! A Redis Cluster of three primaries on loopback.

use std::time::{Duration, Instant};

use redis::{Cmd, cmd};

use crate::network::Distant;
use crate::server::{self, Server};

/// A running cluster; its nodes end with this value.
#[derive(Debug)]
pub struct Cluster {
    /// The primaries.
    pub nodes: Vec<Server>,
    /// What makes each of them distant, if they are.
    distant: Vec<Distant>,
}

impl Cluster {
    /// Starts three nodes and makes a cluster of them.
    ///
    /// # Panics
    ///
    /// When they do not agree within half a minute.
    pub fn start() -> Self {
        Self::start_with(|_| None)
    }

    /// The same, with each node this round trip away.
    pub fn at_distance(round_trip: Duration) -> Self {
        Self::start_with(|node| Some(Distant::new(node.port(), round_trip)))
    }

    fn start_with(distant: impl Fn(&Server) -> Option<Distant>) -> Self {
        let options = "--cluster-enabled yes --cluster-config-file nodes.conf --cluster-node-timeout 2000";
        let options: Vec<&str> = options.split(' ').collect();
        let nodes: Vec<Server> = (0..3).map(|_| Server::start(&options)).collect();
        let distant: Vec<Distant> = nodes.iter().filter_map(distant).collect();
        // Clients are told where the nodes seem to be; the nodes themselves find each other where they are.
        for (node, distant) in nodes.iter().zip(&distant) {
            let bus = node.port() + 10_000;
            node.ask::<()>(cmd("CONFIG").arg("SET").arg("cluster-announce-bus-port").arg(bus));
            node.ask::<()>(cmd("CONFIG").arg("SET").arg("cluster-announce-port").arg(distant.port()));
        }
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
        Self { nodes, distant }
    }

    /// Where the nodes seem to be.
    fn ports(&self) -> Vec<u16> {
        if self.distant.is_empty() {
            return self.nodes.iter().map(Server::port).collect();
        }
        self.distant.iter().map(Distant::port).collect()
    }

    /// All nodes, as a store's URL.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("redis-cluster://{}", hosts.join(","))
    }

    /// A connection that is driven by the runtime it is made in.
    pub async fn connect(&self) -> redis::cluster_async::ClusterConnection {
        let builder = redis::cluster::ClusterClientBuilder::new(self.ports().into_iter().map(server::url))
            .response_timeout(Duration::from_secs(20))
            .tcp_settings(server::tcp_settings());
        builder.build().unwrap().get_async_connection().await.unwrap()
    }
}

fn is_complete(node: &Server, question: &Cmd) -> bool {
    let answer: String = node.ask(question);
    answer.contains("cluster_state:ok") && answer.contains("cluster_known_nodes:3")
}
