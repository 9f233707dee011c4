//! The handle to the connection, and the thread on which the connection lives.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use super::attachments::Attachments;
use super::breaker::Breaker;
use super::connections::Connections;
use super::error::RedisConfigError;
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

/// A handle to the connection; dropping it ends the thread.
pub(super) struct Client {
    pub(super) link: Arc<Link>,
    pub(super) lanes: Arc<Lanes>,
    /// Runtime of the thread.
    pub(super) runtime: Handle,
    /// Ends the thread when it is dropped.
    _stop: oneshot::Sender<()>,
}

impl Client {
    /// Starts the thread and returns. `most` is the largest number of lanes.
    pub(super) fn start(
        topology: Topology,
        timeouts: Timeouts,
        breaker: Breaker,
        encoder: &Arc<Encoder>,
        attachments: &Attachments,
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
        let link = Arc::new(Link::new(nodes, timeouts, breaker, probe_keys));
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::new(Shared {
            link: Arc::clone(&link),
            runtime: runtime.handle().clone(),
            encoder: Arc::clone(encoder),
            attachments: attachments.clone(),
            was_refused: AtomicBool::new(false),
        });
        let connections = Connections::of_store(Arc::clone(&shared));
        let lanes = Lanes::new(Arc::clone(&shared), Arc::clone(&connections), most);
        // Weak, because the lanes have the attachments.
        let messages = Arc::downgrade(&lanes);
        let send = move |message| messages.upgrade().is_some_and(|lanes| lanes.report(message));
        let commands = Arc::clone(&lanes);
        attachments.start(&runtime, Box::new(send), move || drop(commands.send_give_backs()));
        runtime.spawn(Arc::clone(&lanes).keep_alive());
        runtime.spawn(shared.supervise_forever(topology, connections));
        let handle = runtime.handle().clone();
        // When this handle is dropped, the thread ends, and all tasks on it.
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
        Ok(Self { link, lanes, runtime: handle, _stop: stop })
    }

    /// State of the connection, and of the calls over it.
    pub(super) fn status(&self) -> ConnectionStatus {
        let link = &self.link;
        ConnectionStatus {
            is_connected: link.is_up(),
            lanes: self.lanes.connected(),
            deadline: link.deadline(),
            slot_ranges: if link.is_cluster() { SLOT_RANGES } else { 1 },
            open_slot_ranges: link.open_ranges().collect(),
            ..ConnectionStatus::default()
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.lanes.end();
    }
}
