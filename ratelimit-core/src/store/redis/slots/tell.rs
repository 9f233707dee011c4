//! Tells of callers: in time, on a new connection, and at the end.

use std::sync::Arc;
use std::time::Duration;

use smallvec::smallvec;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::call::CallSlots;
use super::table::{SlotTable, Wanted};
use crate::algorithm::Operation;
use crate::store::redis::command::Command;
use crate::store::redis::protocol::{Encoder, Request};
use crate::store::redis::topology::RedisConnection;

/// Time between two looks for callers whose last message is too old.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Maximum number of callers in one call; in a cluster, one.
const MAX_CALLERS: usize = 64;

/// Number of calls in flight.
const MAX_CALLS: usize = 32;

/// Tells in time of each caller of which something runs.
pub(in crate::store::redis) async fn sweep_forever(table: Arc<SlotTable>) {
    loop {
        table.has_entry.notified().await;
        while table.sweep() {
            sleep(LOOK_INTERVAL).await;
        }
    }
}

/// Tells of many callers at once.
#[derive(Clone)]
pub(in crate::store::redis) struct Teller {
    pub(in crate::store::redis) slots: Arc<SlotTable>,
    pub(in crate::store::redis) encoder: Arc<Encoder>,
}

impl Teller {
    /// Tells of each caller of which something runs, before anything else on a new connection: the server may have lost its data.
    pub(in crate::store::redis) async fn tell_all(&self, connection: &RedisConnection) {
        self.tell(connection, Wanted::Running).await;
    }

    /// Tells which slots were freed, when the store is dropped.
    pub(in crate::store::redis) async fn tell_freed(&self, connection: &RedisConnection) {
        self.tell(connection, Wanted::Freed).await;
    }

    async fn tell(&self, connection: &RedisConnection, wanted: Wanted) {
        let messages = self.slots.messages(wanted);
        let size = if connection.is_cluster() { 1 } else { MAX_CALLERS };
        let mut calls = JoinSet::new();
        for callers in messages.chunks(size) {
            let request = |message| Request { operation: Operation::Check, limits: smallvec![message] };
            let mut requests: Vec<Request> = callers.iter().cloned().map(request).collect();
            let slots = CallSlots::new(&self.slots, &mut requests);
            let (call, batch) = self.encoder.encode(requests);
            let mut connection = connection.clone();
            calls.spawn(async move {
                let reply = Command::Run(call).send(&mut connection).await;
                // After an error the next message tells.
                if let (Some(mut replies), Some(slots)) =
                    (reply.ok().and_then(|value| batch.decode(value)), slots)
                {
                    slots.finish(&mut replies);
                }
            });
            if calls.len() >= MAX_CALLS {
                let _ = calls.join_next().await;
            }
        }
        while calls.join_next().await.is_some() {}
    }
}
