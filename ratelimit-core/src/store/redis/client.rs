//! The handle to the connection, and the thread on which the connection lives.

use std::pin::pin;
use std::sync::Arc;
use std::thread;

use redis::Value;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::breaker::Breaker;
use super::command::Command;
use super::error::{CallError, RedisConfigError};
use super::lease::Leases;
use super::link::{CallProgress, Link};
use super::protocol::Encoder;
use super::queue::{Queues, Shared};
use super::slots::{self, SlotTable, Teller};
use super::sweeper::{give_back_all, sweep_forever};
use super::timeouts::Timeouts;
use super::topology::SLOT_RANGES;
use super::topology::{Topology, key_in_each_range};
use crate::error::StoreError;
use crate::store::ConnectionStatus;
use crate::store::Deadline;

/// A handle to the connection; dropping it ends the thread.
pub(super) struct Client {
    pub(super) link: Arc<Link>,
    runtime: Handle,
    pub(super) queues: Arc<Queues>,
    /// Dropped with the handle, which ends the thread.
    _stop: oneshot::Sender<()>,
}

impl Client {
    /// Starts the thread and returns.
    pub(super) fn start(
        topology: Topology,
        timeouts: Timeouts,
        breaker: Breaker,
        encoder: &Arc<Encoder>,
        leases: &Arc<Leases>,
        slots: &Arc<SlotTable>,
    ) -> Result<Self, RedisConfigError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(RedisConfigError::Thread)?;
        let probe_key = |number| encoder.key_format.probe_key(number);
        let nodes = topology.nodes(timeouts, &leases.lanes, runtime.handle());
        let probe_keys = if nodes.is_some() { key_in_each_range(probe_key) } else { vec![probe_key(0)] };
        let link = Arc::new(Link::new(nodes, timeouts, breaker, probe_keys, Arc::clone(&leases.lanes)));
        let (stop, stopped) = oneshot::channel();
        let handle = runtime.handle().clone();
        let queues = Arc::new(Queues::start(Shared {
            link: Arc::clone(&link),
            runtime: handle.clone(),
            encoder: Arc::clone(encoder),
            leases: Arc::clone(leases),
            slots: Arc::clone(slots),
            is_direct: topology.is_plain(),
        }));
        // Weak, because the queues have the table.
        let messages = Arc::downgrade(&queues);
        slots.set_sender(Box::new(move |message| {
            messages.upgrade().is_some_and(|queues| queues.tell(message))
        }));
        runtime.spawn(slots::sweep_forever(Arc::clone(slots)));
        runtime.spawn(sweep_forever(Arc::clone(leases), Arc::clone(&link), Arc::clone(encoder)));
        let teller = Teller { slots: Arc::clone(slots), encoder: Arc::clone(encoder) };
        runtime.spawn(Arc::clone(&link).supervise_forever(topology, teller.clone()));
        // When this handle is dropped, the thread ends, and all tasks on it.
        let (last_link, last_encoder, last_leases) =
            (Arc::clone(&link), Arc::clone(encoder), Arc::clone(leases));
        let run = move || {
            runtime.block_on(async {
                let _ = stopped.await;
                last_link.tell_freed(&teller).await;
                give_back_all(&last_leases, &last_link, &last_encoder).await;
            });
        };
        thread::Builder::new()
            .name("ratelimit-redis".to_owned())
            .spawn(run)
            .map_err(RedisConfigError::Thread)?;
        Ok(Self { link, runtime: handle, queues, _stop: stop })
    }

    /// State of the connection, and of the calls over it.
    pub(super) fn status(&self) -> ConnectionStatus {
        let link = &self.link;
        ConnectionStatus {
            is_connected: link.is_up(),
            connections: link.present_generation(),
            deadline: link.deadline(),
            slot_ranges: if link.is_cluster() { SLOT_RANGES } else { 1 },
            open_slot_ranges: link.open_ranges().collect(),
            round_trip_us: link.calls.round_trips(),
            batch: link.calls.batches(),
            ..ConnectionStatus::default()
        }
    }

    /// Sends a command from the connection's own thread, so that the caller needs no particular runtime.
    ///
    /// The result waits until the request's deadline. The command goes on without it, for the store's deadline, so that a
    /// refund does not depend on the time left to the request; `guard` is dropped when the command ends.
    pub(super) fn send(
        &self,
        command: Command,
        deadline: Deadline,
        guard: impl Send + 'static,
    ) -> SentCommand {
        let (sender, receiver) = oneshot::channel();
        let range = self.link.range(command.keys().first().map(String::as_str));
        // Fails here and not on the thread, which may be busy with connecting: TLS takes computing time.
        if let Some(error) = self.link.fast_fail(range) {
            let _ = sender.send(Err(error));
            return SentCommand(receiver);
        }
        let link = Arc::clone(&self.link);
        // Starts here, so that waiting for the thread counts as well.
        let end = Instant::now() + link.deadline();
        self.runtime.spawn(async move {
            let progress = CallProgress::default();
            let mut call = pin!(link.call(&command, range, &progress));
            if let Ok(reply) = timeout_at(deadline.instant(), call.as_mut()).await {
                // Dropped first, so that the caller sees its own change.
                drop(guard);
                let _ = sender.send(reply);
                return;
            }
            let is_recorded = link.record_timeout(range, &progress);
            let _ = sender.send(Err(deadline.timeout_error()));
            if timeout_at(end, call).await.is_err() && !is_recorded {
                link.record_timeout(range, &progress);
            }
            drop(guard);
        });
        SentCommand(receiver)
    }
}

/// A command that was sent.
pub(super) struct SentCommand(oneshot::Receiver<Result<Value, CallError>>);

impl SentCommand {
    /// Waits for the end of the command.
    pub(super) async fn done(self) -> Result<(), StoreError> {
        self.0.await.unwrap_or(Err(CallError::Unavailable)).map(drop).map_err(StoreError::from)
    }
}
