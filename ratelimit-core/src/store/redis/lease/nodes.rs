//! The nodes that grant leases: the single server, or each master of a cluster. A lease ends when the
//! connection over which it was granted is replaced, or when two answers show that one of the clocks was set.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::store::redis::server_clock::ClockSample;

/// Largest number of masters that grant leases.
const MAX_NODES: usize = 256;

/// Margin of a sample of two clocks, 1 ms.
const MARGIN_US: u64 = 1_000;

/// Margin for clocks that run at different rates: a thousandth of the time since the sample.
const DRIFT: u64 = 1_000;

/// By how much two clocks may disagree about a span of `age`, in microseconds.
pub(super) const fn margin(age: u64) -> u64 {
    MARGIN_US + age / DRIFT
}

impl ClockSample {
    /// Whether both clocks advanced equally between this sample and a later one, within the margin. If not,
    /// one of them was set, or the machine was stopped without its clock counting that time.
    pub(super) fn agrees_with(&self, next: &Self) -> bool {
        let margin = margin(next.answered_at.saturating_sub(self.sent_at)).cast_signed();
        let ((least, most), (next_least, next_most)) = (self.ahead(), next.ahead());
        next_least.saturating_sub(most) <= margin && least.saturating_sub(next_most) <= margin
    }
}

/// A connection to a node. All answers over it have the clock of one server. Leases of an earlier connection
/// are void, because the server may have lost their charges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeConnection {
    /// Index of the node; 0 is the single server.
    pub(super) node: u16,
    /// Number of the connection to the node.
    pub(super) generation: u64,
}

/// The nodes that grant leases, each with its present connection.
#[derive(Debug)]
pub(in crate::store::redis) struct LeaseNodes {
    nodes: Box<[LeaseNode]>,
}

#[derive(Debug, Default)]
struct LeaseNode {
    /// Number of the present connection.
    generation: AtomicU64,
    /// The last answer over that connection.
    last_sample: Mutex<Option<ClockSample>>,
}

impl LeaseNodes {
    pub(in crate::store::redis) fn new(is_cluster: bool) -> Self {
        let size = if is_cluster { MAX_NODES } else { 1 };
        Self { nodes: (0..size).map(|_| LeaseNode::default()).collect() }
    }

    /// The present connection to a node. `None` for masters after the first 256, which grant no leases.
    #[inline]
    pub(super) fn present(&self, node: usize) -> Option<NodeConnection> {
        let generation = self.nodes.get(node)?.generation.load(Ordering::Acquire);
        Some(NodeConnection { node: u16::try_from(node).ok()?, generation })
    }

    /// Voids all leases of a node: there is a new connection, or the node has rejected a call because a
    /// hash slot has moved.
    pub(in crate::store::redis) fn renew(&self, node: usize) {
        if let Some(node) = self.nodes.get(node) {
            let mut last_sample = node.last_sample.lock();
            node.generation.fetch_add(1, Ordering::AcqRel);
            *last_sample = None;
        }
    }

    /// Voids the leases of all nodes.
    pub(in crate::store::redis) fn renew_all(&self) {
        (0..self.nodes.len()).for_each(|node| self.renew(node));
    }

    /// Compares an answer with the last one over its connection. If one of the clocks was set between them,
    /// all leases of the node become void. Returns false in that case, and if another connection is present.
    pub(super) fn observe(&self, connection: NodeConnection, next: ClockSample) -> bool {
        let Some(node) = self.nodes.get(usize::from(connection.node)) else { return false };
        let mut last_sample = node.last_sample.lock();
        if node.generation.load(Ordering::Acquire) != connection.generation {
            return false;
        }
        let agrees = last_sample.is_none_or(|last| last.agrees_with(&next));
        if !agrees {
            node.generation.fetch_add(1, Ordering::AcqRel);
        }
        *last_sample = Some(next);
        agrees
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_agrees_if_both_clocks_advanced_equally() {
        let first = ClockSample { at: 1_000_000, sent_at: 500, answered_at: 900 };
        let next = |at| ClockSample { at, sent_at: 100_500, answered_at: 100_900 };
        // Decided 99,600 to 100,400 microseconds later, with a margin of 1100.
        for (at, agrees) in [
            (1_000_000 + 99_600 - 1_100, true),
            (1_000_000 + 99_600 - 1_101, false),
            (1_000_000 + 100_400 + 1_100, true),
            (1_000_000 + 100_400 + 1_101, false),
            (0, false),
        ] {
            assert_eq!(first.agrees_with(&next(at)), agrees, "{at}");
        }
    }

    #[test]
    fn answers_that_are_seen_in_another_order_agree() {
        let first = ClockSample { at: 1_000_000, sent_at: 500, answered_at: 900 };
        let earlier = ClockSample { at: 999_700, sent_at: 300, answered_at: 950 };
        assert!(first.agrees_with(&earlier));
    }

    fn sample(at: u64) -> ClockSample {
        ClockSample { at: 1_000_000 + at, sent_at: at, answered_at: at + 100 }
    }

    #[test]
    fn a_new_connection_and_a_clock_that_was_set_void_the_leases_of_their_node() {
        let nodes = LeaseNodes::new(true);
        let first = nodes.present(3).unwrap();
        assert!(nodes.observe(first, sample(0)));
        assert!(nodes.observe(first, sample(5_000)));
        // The server's clock is three milliseconds ahead of what it should show.
        let set = ClockSample { at: sample(10_000).at + 3_000, ..sample(10_000) };
        assert!(!nodes.observe(first, set));
        let second = nodes.present(3).unwrap();
        assert_ne!(first, second);
        assert!(!nodes.observe(first, set), "an answer on the connection that is void");
        assert!(nodes.observe(second, ClockSample { at: sample(20_000).at + 3_000, ..sample(20_000) }));
        let other = nodes.present(4).unwrap();
        nodes.renew(3);
        assert_ne!(nodes.present(3).unwrap(), second);
        assert!(nodes.observe(nodes.present(3).unwrap(), sample(30_000)), "another clock");
        assert_eq!(nodes.present(4).unwrap(), other);
        nodes.renew_all();
        assert_ne!(nodes.present(4).unwrap(), other);
        assert!(nodes.present(MAX_NODES).is_none() && LeaseNodes::new(false).present(1).is_none());
    }
}
