//! The start of a store: what its parts share, and the thread on which its connection lives.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::attachments::Attachments;
use super::breaker::Breaker;
use super::connections::Connections;
use super::denial_cache::DenialCache;
use super::error::RedisConfigError;
use super::groups::Groups;
use super::lanes::Lanes;
use super::link::Link;
use super::protocol::Encoder;
use super::shared::Shared;
use super::timeouts::Timeouts;
use super::topology::{SLOT_RANGES, Topology, key_in_each_range};
use crate::check::random_key;
use crate::store::ConnectionStatus;

/// Keys of a probe of a single server. Behind a proxy with two servers all 16 keys are on one of them once in
/// 2^15 times.
const SINGLE_PROBE_KEYS: u32 = 16;

impl Groups {
    /// Starts the thread and returns. `most` is the largest number of lanes.
    pub(super) fn start(
        topology: Topology,
        timeouts: Timeouts,
        breaker: Breaker,
        encoder: Encoder,
        (denials, attachments): (Arc<DenialCache>, Attachments),
        most: usize,
    ) -> Result<Self, RedisConfigError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(RedisConfigError::Thread)?;
        let probe_key = |number| encoder.key_format.probe_key(number);
        let nodes = topology.nodes();
        let probe_keys = if nodes.is_some() {
            key_in_each_range(probe_key)
        } else {
            // Names of its own, since other processes probe at the same time.
            let [a, b, c, d, ..] = random_key();
            let first = u32::from_ne_bytes([a, b, c, d]);
            (0..SINGLE_PROBE_KEYS).map(|number| probe_key(first.wrapping_add(number))).collect()
        };
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::new(Shared {
            link: Link::new(nodes, timeouts, breaker, probe_keys),
            runtime: runtime.handle().clone(),
            encoder,
            denials,
            attachments,
            was_refused: AtomicBool::new(false),
        });
        let connections = Connections::of_store(Arc::clone(&shared));
        let lanes = Lanes::new(Arc::clone(&shared), Arc::clone(&connections), most);
        // Weak, because the lanes have the attachments.
        let messages = Arc::downgrade(&lanes);
        let send = move |message| messages.upgrade().is_some_and(|lanes| lanes.report(message));
        let commands = Arc::clone(&lanes);
        shared.attachments.start(&runtime, Box::new(send), move || drop(commands.send_give_backs()));
        runtime.spawn(Arc::clone(&lanes).keep_alive());
        runtime.spawn(Arc::clone(&shared).supervise_forever(topology, connections));
        // When the groups are dropped, the thread ends, and all tasks on it.
        let last = Arc::clone(&lanes);
        let run = move || {
            runtime.block_on(async {
                let _ = stopped.await;
                last.close().await;
            });
        };
        thread::Builder::new()
            .name("ratelimit-redis".to_owned())
            .spawn(run)
            .map_err(RedisConfigError::Thread)?;
        Ok(Self::new(shared, lanes, stop))
    }

    /// State of the connection, and of the calls over it.
    pub(super) fn status(&self) -> ConnectionStatus {
        let Shared { link, denials, attachments, .. } = &*self.shared;
        let mut status = ConnectionStatus {
            is_connected: link.is_up(),
            lanes: self.lanes.connected(),
            deadline: link.deadline(),
            slot_ranges: if link.is_cluster() { SLOT_RANGES } else { 1 },
            open_slot_ranges: link.open_ranges().collect(),
            cached_denials: denials.len(),
            ..ConnectionStatus::default()
        };
        link.observer.report(&mut status);
        attachments.report(&mut status);
        status
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        self.lanes.end();
    }
}
